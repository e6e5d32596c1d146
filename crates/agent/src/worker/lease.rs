//! One task's lease as its holder sees it: how long it is good by our own clock, and whether the handler should stop.
//!
//! Enters: moments at which a heartbeat that renewed it was *sent* (the server heard it later, so counting from there
//! errs on the safe side), and reasons to stop. Never here: the server's clock.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Why a handler is asked to stop. The first reason counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// Somebody canceled the job.
    Canceled,
    /// The server says that the task is not ours any more.
    Stale,
    /// By our own clock the lease may be over.
    CutOff,
    /// The task took longer than it may.
    TimedOut,
    /// The worker has to leave.
    Leaving,
}

#[derive(Debug)]
pub(crate) struct Lease {
    ttl: Duration,
    cancellation: CancellationToken,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    renewed_at: Instant,
    reason: Option<StopReason>,
    stale: bool,
    /// The handler has ended; nothing can stop it any more.
    finished: bool,
}

impl Lease {
    pub fn new(ttl: Duration, renewed_at: Instant) -> Self {
        let state = State { renewed_at, reason: None, stale: false, finished: false };
        Self { ttl, cancellation: CancellationToken::new(), state: Mutex::new(state) }
    }

    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    pub fn renew(&self, sent_at: Instant) {
        let mut state = self.state();
        state.renewed_at = state.renewed_at.max(sent_at);
    }

    /// Until when the holder may act without a doubt: a tenth of the lease before its end.
    pub fn safe_until(&self) -> Instant {
        self.state().renewed_at + (self.ttl - self.ttl / 10)
    }

    pub fn expires_at(&self) -> Instant {
        self.state().renewed_at + self.ttl
    }

    pub fn is_held(&self, now: Instant) -> bool {
        !self.is_stale() && now < self.safe_until()
    }

    pub fn is_stale(&self) -> bool {
        self.state().stale
    }

    /// Asks the handler to stop. Whether that was news to a handler at work.
    pub fn stop(&self, reason: StopReason) -> bool {
        let mut state = self.state();
        if reason == StopReason::Stale {
            state.stale = true;
        }
        if state.finished || state.reason.is_some() {
            return false;
        }
        state.reason = Some(reason);
        drop(state);
        self.cancellation.cancel();
        true
    }

    /// The handler has ended. Why it was asked to, if it was.
    pub fn finish(&self) -> Option<StopReason> {
        let mut state = self.state();
        state.finished = true;
        state.reason
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_stops_acting_a_margin_before_the_end() {
        let start = Instant::now();
        let lease = Lease::new(Duration::from_secs(30), start);
        assert!(lease.is_held(start + Duration::from_secs(26)));
        assert!(!lease.is_held(start + Duration::from_secs(27)));
        lease.renew(start + Duration::from_secs(8));
        assert_eq!(lease.expires_at(), start + Duration::from_secs(38));
        // An answer that was overtaken by a later one does not take time away.
        lease.renew(start + Duration::from_secs(4));
        assert_eq!(lease.safe_until(), start + Duration::from_secs(35));
        lease.stop(StopReason::Stale);
        assert!(!lease.is_held(start));
    }

    #[test]
    fn the_first_reason_counts_and_none_after_the_end() {
        let lease = Lease::new(Duration::from_secs(30), Instant::now());
        assert!(lease.stop(StopReason::Canceled));
        assert!(!lease.stop(StopReason::TimedOut));
        assert!(lease.cancellation().is_cancelled());
        assert_eq!(lease.finish(), Some(StopReason::Canceled));

        let lease = Lease::new(Duration::from_secs(30), Instant::now());
        assert_eq!(lease.finish(), None);
        assert!(!lease.stop(StopReason::Stale));
        assert!(!lease.cancellation().is_cancelled());
    }
}
