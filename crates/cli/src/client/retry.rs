//! When to ask again, and after how long.
//!
//! Asking again is for requests that mean the same when they arrive twice: reads, submissions under a key, orders that
//! set something to a value. Everything else is asked once, and the person decides.

use std::time::Duration;

use crate::failure::Failure;

/// Whether a request may be sent again when its answer was lost or was "not now".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    Never,
    /// It means the same twice.
    Safe,
    /// It means the same twice, and is part of something long that is worth some patience.
    Patient,
}

impl Again {
    pub const fn tries_max(self) -> u32 {
        match self {
            Self::Never => 1,
            Self::Safe => 4,
            Self::Patient => 9,
        }
    }
}

/// A server that asks for more patience than this gets its refusal shown instead.
const RETRY_AFTER_MAX_S: u64 = 30;
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// How long to wait before the next try, when `tried` have failed; `None` if another try is pointless. `reached` says
/// that this server has answered before: one that never did is probably not there. `chance` is within `0.0..1.0`.
pub fn wait(failure: &Failure, tried: u32, reached: bool, chance: f64) -> Option<Duration> {
    match failure {
        Failure::Unreachable { .. } if reached => Some(backoff(tried, chance)),
        Failure::Refused(refusal) if matches!(refusal.status, 429 | 502 | 503 | 504) => match refusal.retry_after {
            Some(seconds) if seconds > RETRY_AFTER_MAX_S => None,
            // Not all at once when the time is over.
            Some(seconds) => Some(Duration::from_secs(seconds) + Duration::from_millis(50 + (250.0 * chance) as u64)),
            None => Some(backoff(tried, chance)),
        },
        _ => None,
    }
}

/// Doubling from 200 ms to five seconds, and anywhere in the upper half of that.
pub fn backoff(tried: u32, chance: f64) -> Duration {
    let whole = Duration::from_millis(200).saturating_mul(1 << tried.saturating_sub(1).min(10)).min(BACKOFF_MAX);
    whole.mul_f64(0.5 + 0.5 * chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Refusal;

    fn refused(status: u16, retry_after: Option<u64>) -> Failure {
        Failure::Refused(Box::new(Refusal { status, retry_after, ..Refusal::default() }))
    }

    fn unreachable() -> Failure {
        Failure::Unreachable { server: String::new(), cause: String::new(), hint: None }
    }

    #[test]
    fn not_now_is_asked_again_and_no_is_not() {
        assert_eq!(wait(&refused(503, Some(2)), 1, true, 0.0), Some(Duration::from_millis(2_050)));
        assert_eq!(wait(&refused(429, None), 1, true, 1.0), Some(Duration::from_millis(200)));
        assert_eq!(wait(&refused(503, Some(3_600)), 1, true, 0.0), None);
        for status in [400, 401, 403, 404, 409, 413, 500] {
            assert_eq!(wait(&refused(status, Some(1)), 1, true, 0.5), None, "{status}");
        }
        assert_eq!(wait(&Failure::Declined, 1, true, 0.5), None);
    }

    #[test]
    fn a_server_that_never_answered_is_not_waited_for() {
        assert_eq!(wait(&unreachable(), 1, false, 0.5), None);
        assert!(wait(&unreachable(), 1, true, 0.5).is_some());
    }

    #[test]
    fn waits_grow_and_end_at_five_seconds() {
        let waits: Vec<_> = (1..9).map(|tried| backoff(tried, 1.0).as_millis()).collect();
        assert_eq!(waits, [200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000]);
        assert_eq!(backoff(u32::MAX, 0.0).as_millis(), 2_500);
    }
}
