//! How a run stands, in the words that every job has.

use bowline_model::{JobStatus, Timestamp};

use super::record::Waiting;
use super::state::Flow;

/// What a run waits for while it is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PausedFor {
    Sleep,
    Approval,
    Event,
    Debug,
}

impl PausedFor {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Approval => "approval",
            Self::Event => "event",
            Self::Debug => "debug",
        }
    }
}

impl Flow {
    /// The status of its job, and when it changes by itself.
    pub fn standing(&self) -> (JobStatus, Option<PausedFor>, Option<Timestamp>) {
        if let Some(ending) = &self.ending {
            return (ending.status, None, None);
        }
        if self.canceling {
            return (JobStatus::Canceling, None, None);
        }
        let due_at = self.due_at();
        if self.jobs().next().is_some() {
            return (JobStatus::Running, None, due_at);
        }
        if self.debug.halted.is_some() {
            return (JobStatus::Paused, Some(PausedFor::Debug), due_at);
        }
        let waits = self.tokens.iter().filter_map(|token| token.held.as_ref()).map(|held| &held.wait);
        let mut paused = None;
        for wait in waits {
            let this = match wait {
                Waiting::Until(_) => PausedFor::Sleep,
                Waiting::Approval { .. } => PausedFor::Approval,
                Waiting::Event { .. } => PausedFor::Event,
                Waiting::Call { .. } | Waiting::Each { .. } => continue,
            };
            // A person comes before an event, and an event before the clock.
            paused = match (paused, this) {
                (Some(PausedFor::Approval), _) | (_, PausedFor::Approval) => Some(PausedFor::Approval),
                (Some(PausedFor::Event), _) | (_, PausedFor::Event) => Some(PausedFor::Event),
                _ => Some(this),
            };
        }
        match paused {
            Some(_) if self.debug.holds_back() || self.tokens.iter().all(|token| token.held.is_some()) => {
                (JobStatus::Paused, paused, due_at)
            }
            _ => (JobStatus::Running, None, due_at),
        }
    }
}
