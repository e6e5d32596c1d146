//! The life of a run, and the only place where a run changes state.
//!
//! Enters: a [`RunFact`]. Leaves: the next [`RunStatus`].
//! `lost` and `returned` are opinions: they may give way to what the executor says later. Every other end is a fact
//! and never changes.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorClass;

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Planned, not handed out.
    Pending,
    /// Handed out, not confirmed.
    Starting,
    /// Confirmed by its worker.
    Running,
    Succeeded,
    Failed,
    TimedOut,
    Canceled,
    /// Forbidden on its host when it was about to start.
    Blocked,
    /// Its executor went silent: an opinion, until evidence comes.
    Lost,
    /// Handed out, never confirmed, given to somebody else: an opinion too.
    Returned,
}

/// How an attempt ended, by the word of its executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Succeeded,
    Failed(ErrorClass),
    Canceled,
}

/// Something that has happened to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunFact {
    /// Its worker named it, in a heartbeat or an event.
    Accepted,
    Reported(Outcome),
    LeaseExpired,
    /// The time to confirm has passed.
    Returned,
    DeadlinePassed,
}

/// Why a fact changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the run has already ended as {0}")]
    Finished(RunStatus),
    #[error("the run is already {0}")]
    Unchanged(RunStatus),
    #[error("this cannot happen to a run that is {0}")]
    NotFrom(RunStatus),
}

impl RunStatus {
    pub const ALL: [Self; 10] = [
        Self::Pending,
        Self::Starting,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::TimedOut,
        Self::Canceled,
        Self::Blocked,
        Self::Lost,
        Self::Returned,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Canceled => "canceled",
            Self::Blocked => "blocked",
            Self::Lost => "lost",
            Self::Returned => "returned",
        }
    }

    /// The number the ledger keeps. Never reuse one.
    pub const fn code(self) -> i64 {
        match self {
            Self::Pending => 1,
            Self::Starting => 2,
            Self::Running => 3,
            Self::Succeeded => 10,
            Self::Failed => 11,
            Self::TimedOut => 12,
            Self::Canceled => 13,
            Self::Blocked => 14,
            Self::Lost => 20,
            Self::Returned => 21,
        }
    }

    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }

    /// Whether a worker may still be at it under a valid lease.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Pending | Self::Starting | Self::Running)
    }

    /// Whether evidence may still correct it.
    pub const fn is_opinion(self) -> bool {
        matches!(self, Self::Lost | Self::Returned)
    }

    /// What a run that ended this way is called.
    pub const fn from_outcome(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Succeeded => Self::Succeeded,
            Outcome::Failed(ErrorClass::Timeout) => Self::TimedOut,
            Outcome::Failed(_) => Self::Failed,
            Outcome::Canceled => Self::Canceled,
        }
    }

    /// What `fact` leads to.
    pub fn on(self, fact: RunFact) -> Result<Self, Refused> {
        match (self, fact) {
            (Self::Starting, RunFact::Accepted) => Ok(Self::Running),
            (Self::Running, RunFact::Accepted) => Err(Refused::Unchanged(self)),
            (Self::Starting | Self::Running | Self::Lost | Self::Returned, RunFact::Reported(outcome)) => {
                Ok(Self::from_outcome(outcome))
            }
            (Self::Starting, RunFact::Returned) => Ok(Self::Returned),
            (Self::Starting | Self::Running, RunFact::LeaseExpired) => Ok(Self::Lost),
            (Self::Starting | Self::Running, RunFact::DeadlinePassed) => Ok(Self::TimedOut),
            (_, RunFact::Reported(outcome)) if self == Self::from_outcome(outcome) => Err(Refused::Unchanged(self)),
            _ if self.is_active() => Err(Refused::NotFrom(self)),
            _ => Err(Refused::Finished(self)),
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: [RunFact; 8] = [
        RunFact::Accepted,
        RunFact::Reported(Outcome::Succeeded),
        RunFact::Reported(Outcome::Failed(ErrorClass::Transient)),
        RunFact::Reported(Outcome::Failed(ErrorClass::Timeout)),
        RunFact::Reported(Outcome::Canceled),
        RunFact::LeaseExpired,
        RunFact::Returned,
        RunFact::DeadlinePassed,
    ];

    #[test]
    fn the_whole_table() {
        let mut table = String::new();
        for status in RunStatus::ALL {
            for fact in FACTS {
                let answer = status.on(fact).map_or_else(|e| format!("refused: {e}"), |next| next.to_string());
                table.push_str(&format!("{status} + {fact:?} -> {answer}\n"));
            }
        }
        insta::assert_snapshot!(table);
    }

    /// R1: ends that are facts never change.
    #[test]
    fn facts_are_final() {
        for status in RunStatus::ALL.into_iter().filter(|s| !s.is_active() && !s.is_opinion()) {
            for fact in FACTS {
                assert!(status.on(fact).is_err(), "{status} + {fact:?}");
            }
        }
    }
}
