//! The words for where a job stands.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a job stands. The eight last ones are ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// Nobody has approved it yet.
    AwaitingApproval,
    /// Waiting for a moment: its `run_at`, or the end of a backoff.
    Pending,
    /// Waiting for a worker.
    Queued,
    /// A worker holds the lease.
    Running,
    /// Somebody asked to stop it; its executor has not confirmed yet.
    Canceling,
    /// Waiting for something other than a worker.
    Paused,
    Succeeded,
    /// It failed, and its policy wants no dead letter.
    Failed,
    Canceled,
    /// Forbidden on its host when it was about to start. Only parts of commands end so.
    Blocked,
    /// The last attempt on its host took longer than it may. Only parts of commands end so.
    TimedOut,
    /// Its host could not be reached. Only parts of commands end so.
    Unreachable,
    /// Hopeless; it lies in its lane's dead letters.
    Dead,
    /// Its executor was lost and may not be replaced, or the control plane could not go on.
    Error,
}

/// Why a text is not a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown status; the statuses are awaiting_approval, pending, queued, running, canceling, paused, success, failed, canceled, blocked, timed_out, unreachable, dead, error"
)]
pub struct NotAStatus;

impl JobStatus {
    pub const ALL: [Self; 14] = [
        Self::AwaitingApproval,
        Self::Pending,
        Self::Queued,
        Self::Running,
        Self::Canceling,
        Self::Paused,
        Self::Succeeded,
        Self::Failed,
        Self::Canceled,
        Self::Dead,
        Self::Error,
        Self::Blocked,
        Self::TimedOut,
        Self::Unreachable,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AwaitingApproval => "awaiting_approval",
            Self::Pending => "pending",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Canceling => "canceling",
            Self::Paused => "paused",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Dead => "dead",
            Self::Error => "error",
            Self::Blocked => "blocked",
            Self::TimedOut => "timed_out",
            Self::Unreachable => "unreachable",
        }
    }

    /// The number the ledger keeps. Never reuse one.
    pub const fn code(self) -> i64 {
        match self {
            Self::AwaitingApproval => 1,
            Self::Pending => 2,
            Self::Queued => 3,
            Self::Running => 4,
            Self::Canceling => 5,
            Self::Paused => 6,
            Self::Succeeded => 10,
            Self::Failed => 11,
            Self::Canceled => 12,
            Self::Dead => 13,
            Self::Error => 14,
            Self::Blocked => 15,
            Self::TimedOut => 16,
            Self::Unreachable => 17,
        }
    }

    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }

    /// Whether nothing more will happen unless a person, or late evidence, says so.
    pub const fn is_terminal(self) -> bool {
        self.is_failure() || matches!(self, Self::Succeeded | Self::Canceled | Self::Blocked)
    }

    /// Whether it was tried and did not work out: what the limits of a rollout count.
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::TimedOut | Self::Unreachable | Self::Dead | Self::Error)
    }
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for JobStatus {
    type Err = NotAStatus;

    fn from_str(text: &str) -> Result<Self, NotAStatus> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or(NotAStatus)
    }
}
