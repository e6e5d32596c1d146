//! The rules a job runs under. Stored on the job when it is accepted, so that a later change of defaults does not
//! rewrite history.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::retry::{BadRetryPolicy, RetryPolicy, StartRetry};
use crate::time::Timestamp;

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
    /// For attempts that never started, as on a host that cannot be reached, instead of `retry`.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::shape::maybe_by_name")]
    pub retry_not_started: Option<StartRetry>,
    /// How long one attempt may take, in milliseconds.
    #[schemars(range(min = 1, max = 604_800_000))]
    pub timeout_ms: u64,
    /// How long the whole job may take, in milliseconds, with all its attempts and the time it waits for a worker; counted
    /// from `run_at`, or from its submission if that is later. It fails when it has not ended by then. No limit unless given
    /// or set by the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000, max = 2_592_000_000_u64))]
    pub deadline_ms: Option<u64>,
    pub on_lost: OnLost,
    /// Whether a hopeless job goes to its lane's dead letters (`dead`) or just ends (`failed`).
    pub dead_letter: bool,
}

impl Default for JobPolicy {
    fn default() -> Self {
        Self {
            retry: RetryPolicy::default(),
            retry_not_started: None,
            timeout_ms: Self::TIMEOUT_DEFAULT_MS,
            deadline_ms: None,
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
    #[error("deadline_ms must be between 1000 and 2592000000 (30 days)")]
    Deadline,
}

impl JobPolicy {
    /// How long an attempt of a job may take that does not say it itself.
    pub const TIMEOUT_DEFAULT_MS: u64 = 15 * 60 * 1_000;
    pub const TIMEOUT_MAX_MS: u64 = 7 * 24 * 60 * 60 * 1_000;
    /// The deadlines a job may have.
    pub const DEADLINE_MS: std::ops::RangeInclusive<u64> = 1_000..=30 * 24 * 60 * 60 * 1_000;

    pub fn check(&self) -> Result<(), BadPolicy> {
        self.retry.check()?;
        if let Some(retry) = &self.retry_not_started {
            retry.check()?;
        }
        if !(1..=Self::TIMEOUT_MAX_MS).contains(&self.timeout_ms) {
            return Err(BadPolicy::Timeout);
        }
        if self.deadline_ms.is_some_and(|ms| !Self::DEADLINE_MS.contains(&ms)) {
            return Err(BadPolicy::Deadline);
        }
        Ok(())
    }

    /// The most attempts a job can have that is never lost: those of `retry`, or those that may not start.
    pub fn attempts_max(&self) -> u32 {
        let unstarted = self.retry_not_started.map_or(0, |retry| retry.max_retries.saturating_add(1));
        self.retry.max_attempts.max(unstarted)
    }

    /// When a job whose time starts at `from` must have ended.
    pub fn deadline_at(&self, from: Timestamp) -> Option<Timestamp> {
        self.deadline_ms.map(|ms| from.plus_millis(i64::try_from(ms).unwrap_or(i64::MAX)))
    }
}
