//! How long to wait before calling again: full jitter, and never sooner than the server asked for.
//!
//! Enters: how often it failed, what the server asked for, and chance as a plain number. Leaves: a duration.

use std::time::Duration;

use bowline_model::RetryPolicy;

use crate::server::client::CallError;

/// A server that asks for more than this is not believed: it may be a proxy's maintenance page.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// The patience of one loop with one sort of call.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    policy: RetryPolicy,
    tries: u32,
}

impl Backoff {
    pub fn new(policy: &RetryPolicy) -> Self {
        Self { policy: policy.clone(), tries: 0 }
    }

    /// It went well: the next failure is a first one again. Whether there had been any.
    pub fn reset(&mut self) -> bool {
        std::mem::take(&mut self.tries) > 0
    }

    /// Whether the last pause was the first of its row: worth a warning. The ones after it are not.
    pub fn is_first(&self) -> bool {
        self.tries == 1
    }

    /// The pause after one more failure.
    pub fn after(&mut self, error: &CallError) -> Duration {
        self.next(error.retry_after(), rand::random())
    }

    /// The pause after one more time in vain, without an error to blame.
    pub fn pause(&mut self) -> Duration {
        self.next(None, rand::random())
    }

    /// What was asked for, and jitter on top: all who were told the same second would come back in the same one.
    fn next(&mut self, asked: Option<Duration>, chance: f64) -> Duration {
        let jitter = Duration::from_millis(self.policy.delay_ms(self.tries, chance));
        self.tries = self.tries.saturating_add(1);
        asked.unwrap_or_default().min(RETRY_AFTER_MAX) + jitter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backoff() -> Backoff {
        Backoff::new(&RetryPolicy { base_ms: 100, factor: 2.0, max_backoff_ms: 1_000, ..RetryPolicy::default() })
    }

    #[test]
    fn it_grows_to_its_limit_and_starts_over_after_success() {
        let mut backoff = backoff();
        let pauses: Vec<_> = (0..5).map(|_| backoff.next(None, 1.0).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1_000]);
        assert!(backoff.reset());
        assert!(!backoff.reset());
        assert_eq!(backoff.next(None, 0.5).as_millis(), 50);
    }

    #[test]
    fn it_never_comes_back_before_it_was_asked_to() {
        let asked = Duration::from_secs(7);
        assert_eq!(backoff().next(Some(asked), 0.0), asked);
        assert!(backoff().next(Some(asked), 1.0) > asked);
        assert_eq!(backoff().next(Some(Duration::from_secs(86_400)), 0.0), RETRY_AFTER_MAX);
    }
}
