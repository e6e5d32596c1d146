//! Whether and when to try again.
//!
//! `delay = random(0 .. min(max_backoff, base * factor^retries))` (full jitter) unless the policy says otherwise.
//! Failures and losses have separate budgets: a lease lost to a crash says nothing about the work, so it does not
//! eat the retry budget; but it is bounded too, so that work which kills its executor ends in dead letters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorClass;

/// How chance enters the delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    /// Anywhere between nothing and the whole backoff.
    #[default]
    Full,
    /// The whole backoff and up to one second more.
    PlusSecond,
    /// The backoff as it is.
    None,
}

/// How often, and how patiently.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetryPolicy {
    /// Attempts that may fail, the first included.
    #[schemars(range(min = 1, max = 1000))]
    pub max_attempts: u32,
    /// Leases that may be lost before the job is called poison.
    #[schemars(range(min = 0, max = 1000))]
    pub max_losses: u32,
    /// The first backoff, in milliseconds.
    #[schemars(range(min = 0, max = 86_400_000))]
    pub base_ms: u64,
    /// What the backoff grows by each time.
    #[schemars(range(min = 1.0, max = 100.0))]
    pub factor: f64,
    /// The longest backoff, in milliseconds.
    #[schemars(range(min = 0, max = 604_800_000))]
    pub max_backoff_ms: u64,
    pub jitter: Jitter,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: 4, max_losses: 3, base_ms: 250, factor: 2.0, max_backoff_ms: 5_000, jitter: Jitter::Full }
    }
}

/// How often, and how patiently, to try again what never started: its host could not be reached, or nothing could be
/// started there. `delay = min(max_backoff, base * 2^retries) + random(0 .. 1 s)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StartRetry {
    /// Attempts after the first.
    #[schemars(range(min = 0, max = 999))]
    pub max_retries: u32,
    /// The first backoff, in milliseconds.
    #[schemars(range(min = 0, max = 86_400_000))]
    pub base_ms: u64,
    /// The longest backoff, in milliseconds.
    #[schemars(range(min = 0, max = 604_800_000))]
    pub max_backoff_ms: u64,
}

impl Default for StartRetry {
    fn default() -> Self {
        Self { max_retries: 3, base_ms: 1_000, max_backoff_ms: 30_000 }
    }
}

impl StartRetry {
    /// The same as a policy for attempts of every sort.
    pub fn as_policy(&self) -> RetryPolicy {
        RetryPolicy {
            max_attempts: self.max_retries.saturating_add(1),
            base_ms: self.base_ms,
            factor: 2.0,
            max_backoff_ms: self.max_backoff_ms,
            jitter: Jitter::PlusSecond,
            ..RetryPolicy::default()
        }
    }

    pub fn check(&self) -> Result<(), BadRetryPolicy> {
        let of = "retry_not_started";
        self.as_policy().check().map_err(|bad| match bad.field {
            "max_attempts" => BadRetryPolicy { of, field: "max_retries", min: 0, max: 999 },
            _ => BadRetryPolicy { of, ..bad },
        })
    }
}

/// Which number of a retry policy cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{of}.{field} must be between {min} and {max}")]
pub struct BadRetryPolicy {
    /// The policy's field in what it is part of.
    pub of: &'static str,
    pub field: &'static str,
    pub min: u64,
    pub max: u64,
}

impl RetryPolicy {
    pub fn check(&self) -> Result<(), BadRetryPolicy> {
        let within = |field, value: u64, min, max| {
            if (min..=max).contains(&value) { Ok(()) } else { Err(BadRetryPolicy { of: "retry", field, min, max }) }
        };
        within("max_attempts", self.max_attempts.into(), 1, 1_000)?;
        within("max_losses", self.max_losses.into(), 0, 1_000)?;
        within("base_ms", self.base_ms, 0, 86_400_000)?;
        within("max_backoff_ms", self.max_backoff_ms, 0, 604_800_000)?;
        if self.factor.is_finite() && (1.0..=100.0).contains(&self.factor) {
            Ok(())
        } else {
            Err(BadRetryPolicy { of: "retry", field: "factor", min: 1, max: 100 })
        }
    }

    /// The longest the delay before retry number `retries` (from 0) can be, without the extra second.
    pub fn backoff_ms(&self, retries: u32) -> u64 {
        let grown = self.base_ms as f64 * self.factor.powi(i32::try_from(retries.min(1_000)).unwrap_or(1_000));
        // Nothing grown for ever is still nothing.
        if self.base_ms == 0 {
            return 0;
        }
        if grown.is_finite() { (grown as u64).min(self.max_backoff_ms) } else { self.max_backoff_ms }
    }

    /// The delay before retry number `retries`. `chance` is anywhere in `0.0..1.0`.
    pub fn delay_ms(&self, retries: u32, chance: f64) -> u64 {
        let backoff = self.backoff_ms(retries);
        let chance = chance.clamp(0.0, 1.0);
        match self.jitter {
            Jitter::Full => (backoff as f64 * chance) as u64,
            Jitter::PlusSecond => backoff + (1_000.0 * chance) as u64,
            Jitter::None => backoff,
        }
    }

    /// Whether another attempt follows a failure, when `failures` attempts have failed by now.
    pub fn allows_after_failure(&self, failures: u32, class: ErrorClass) -> bool {
        class.is_retriable() && failures < self.max_attempts
    }

    /// Whether another attempt follows a lost lease, when `losses` leases have been lost by now.
    pub fn allows_after_loss(&self, losses: u32) -> bool {
        losses <= self.max_losses
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// J6: every delay lies in [0, min(cap, base * factor^n)].
        #[test]
        fn full_jitter_stays_within_the_backoff(
            base_ms in 0u64..10_000, factor in 1.0f64..10.0, max_backoff_ms in 0u64..100_000,
            retries in 0u32..2_000, chance in 0.0f64..1.0,
        ) {
            let policy = RetryPolicy { base_ms, factor, max_backoff_ms, ..RetryPolicy::default() };
            let delay = policy.delay_ms(retries, chance);
            prop_assert!(delay <= max_backoff_ms);
            // Without a base there is nothing to multiply; 0 times infinity is no number.
            let grown = if base_ms == 0 { 0.0 } else { base_ms as f64 * factor.powi(retries.min(1000) as i32) };
            prop_assert!(delay as f64 <= grown + 1.0);
        }

        #[test]
        fn the_other_form_adds_at_most_a_second(retries in 0u32..100, chance in 0.0f64..1.0) {
            let policy = RetryPolicy { jitter: Jitter::PlusSecond, ..RetryPolicy::default() };
            let delay = policy.delay_ms(retries, chance);
            prop_assert!(delay >= policy.backoff_ms(retries) && delay <= policy.backoff_ms(retries) + 1_000);
        }
    }

    #[test]
    fn the_default_is_four_attempts_with_doubling_from_a_quarter_second_to_five() {
        let policy = RetryPolicy { jitter: Jitter::None, ..RetryPolicy::default() };
        let delays: Vec<_> = (0..6).map(|n| policy.delay_ms(n, 0.5)).collect();
        assert_eq!(delays, [250, 500, 1_000, 2_000, 4_000, 5_000]);
        assert!(policy.allows_after_failure(3, ErrorClass::Transient));
        assert!(!policy.allows_after_failure(4, ErrorClass::Transient));
        assert!(!policy.allows_after_failure(1, ErrorClass::Permanent));
    }

    #[test]
    fn numbers_out_of_range_name_their_field() {
        let bad = RetryPolicy { factor: f64::NAN, ..RetryPolicy::default() };
        assert_eq!(bad.check().map_err(|e| e.field), Err("factor"));
        let bad = RetryPolicy { max_attempts: 0, ..RetryPolicy::default() };
        assert_eq!(bad.check().map_err(|e| e.field), Err("max_attempts"));
        let bad = StartRetry { max_retries: 1_000, ..StartRetry::default() };
        assert_eq!(bad.check().unwrap_err().to_string(), "retry_not_started.max_retries must be between 0 and 999");
        let bad = StartRetry { base_ms: 86_400_001, ..StartRetry::default() };
        assert_eq!(bad.check().unwrap_err().to_string(), "retry_not_started.base_ms must be between 0 and 86400000");
    }

    #[test]
    fn what_never_started_waits_twice_as_long_each_time_and_up_to_a_second_more() {
        let policy = StartRetry { max_retries: 3, base_ms: 2_000, max_backoff_ms: 5_000 }.as_policy();
        let delays: Vec<_> = (0..4).map(|n| policy.delay_ms(n, 0.5)).collect();
        assert_eq!(delays, [2_500, 4_500, 5_500, 5_500]);
        assert_eq!(policy.max_attempts, 4);
    }
}
