//! The rules a job runs under. Stored on the job when it is accepted, so that a later change of defaults does not
//! rewrite history.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::retry::{BadRetryPolicy, RetryPolicy};

/// What happens when an executor goes silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnLost {
    /// Try again with a new run, within the bound on losses.
    #[default]
    Retry,
    /// End as `error`; a person decides. For work that must not be done twice.
    Error,
}

/// The rules of one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JobPolicy {
    #[serde(deserialize_with = "crate::shape::by_name")]
    pub retry: RetryPolicy,
    /// How long one attempt may take, in milliseconds.
    #[schemars(range(min = 1, max = 604_800_000))]
    pub timeout_ms: u64,
    pub on_lost: OnLost,
    /// Whether a hopeless job goes to its lane's dead letters (`dead`) or just ends (`failed`).
    pub dead_letter: bool,
}

impl Default for JobPolicy {
    fn default() -> Self {
        Self {
            retry: RetryPolicy::default(),
            timeout_ms: 15 * 60 * 1_000,
            on_lost: OnLost::default(),
            dead_letter: true,
        }
    }
}

/// Which number of a policy cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPolicy {
    #[error(transparent)]
    Retry(#[from] BadRetryPolicy),
    #[error("timeout_ms must be between 1 and 604800000 (seven days)")]
    Timeout,
}

impl JobPolicy {
    pub const TIMEOUT_MAX_MS: u64 = 7 * 24 * 60 * 60 * 1_000;

    pub fn check(&self) -> Result<(), BadPolicy> {
        self.retry.check()?;
        if (1..=Self::TIMEOUT_MAX_MS).contains(&self.timeout_ms) { Ok(()) } else { Err(BadPolicy::Timeout) }
    }
}
