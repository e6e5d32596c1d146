//! Leases: the time-bounded right to execute a run, and when it may be taken away.
//!
//! *Silent*: a worker that has not renewed for a whole lease. *Caught up*: we could have heard it. After an outage of
//! the database, or a pause of our own process, every heartbeat looks old although nobody was silent; so silence is
//! counted only from the moment since which we have been listening without a break, the watermark.

use crate::planted::{self, Mistake};
use crate::time::Timestamp;

/// The times of the worker protocol, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTimes {
    /// How long a lease is good without a renewal.
    pub ttl_ms: i64,
    /// How long a worker may take to confirm a hand-out.
    pub accept_ms: i64,
    /// How often a worker should renew. Three missed renewals must fit inside the lease.
    pub heartbeat_ms: i64,
    /// How long after its time limit a run that does not stop is given up.
    pub deadline_grace_ms: i64,
}

impl Default for LeaseTimes {
    fn default() -> Self {
        Self { ttl_ms: 30_000, accept_ms: 10_000, heartbeat_ms: 8_000, deadline_grace_ms: 10_000 }
    }
}

/// How long a run stays, at most, with a worker that has never named a run in a heartbeat: it may not know of it. Only for jobs
/// with the default time limit.
pub const UNNAMED_MAX_MS: u64 = 10 * 60 * 1_000;

/// Why lease times do not fit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadLeaseTimes {
    #[error("lease.heartbeat_ms must be at least 1 and fit three times into lease.ttl_ms")]
    Heartbeat,
    #[error("lease.accept_ms must be between 1 and lease.ttl_ms")]
    Accept,
    #[error("lease.deadline_grace_ms must not be negative")]
    Grace,
}

impl LeaseTimes {
    pub const fn check(&self) -> Result<(), BadLeaseTimes> {
        if self.heartbeat_ms < 1 || self.heartbeat_ms.saturating_mul(3) > self.ttl_ms {
            return Err(BadLeaseTimes::Heartbeat);
        }
        if self.accept_ms < 1 || self.accept_ms > self.ttl_ms {
            return Err(BadLeaseTimes::Accept);
        }
        if self.deadline_grace_ms < 0 {
            return Err(BadLeaseTimes::Grace);
        }
        Ok(())
    }
}

/// A lease as the ledger holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// When the worker was last heard about this run, by our receive time.
    pub renewed_at: Timestamp,
    pub accepted: bool,
    /// When the attempt's time limit ends.
    pub deadline_at: Timestamp,
}

/// What time has done to a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Valid,
    /// Never confirmed; hand it to somebody else.
    Return,
    /// Silent for a whole lease.
    Lost,
    /// Still renewing, but far past its time limit.
    Overdue,
}

impl Lease {
    /// What is true of this lease at `now`, when we have been listening without a break since `watermark`.
    pub fn verdict(&self, times: &LeaseTimes, watermark: Timestamp, now: Timestamp) -> Verdict {
        let silent_since =
            if planted::on(Mistake::IgnoreWatermark) { self.renewed_at } else { self.renewed_at.max(watermark) };
        let silence = now.millis_since(silent_since);
        if !self.accepted && silence > times.accept_ms {
            Verdict::Return
        } else if silence > times.ttl_ms {
            Verdict::Lost
        } else if self.accepted
            && now > self.deadline_at.plus_millis(times.deadline_grace_ms)
            && now > watermark.plus_millis(times.deadline_grace_ms)
        {
            Verdict::Overdue
        } else {
            Verdict::Valid
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIMES: LeaseTimes =
        LeaseTimes { ttl_ms: 3_000, accept_ms: 1_000, heartbeat_ms: 500, deadline_grace_ms: 1_000 };

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    proptest! {
        /// R5: whatever the ages, nobody is called lost within a lease of the watermark.
        #[test]
        fn nobody_is_lost_before_we_listened_for_a_whole_lease(
            renewed in 0i64..100_000, watermark in 0i64..100_000, later in 0i64..=3_000, accepted: bool,
        ) {
            let lease = Lease { renewed_at: at(renewed), accepted, deadline_at: at(i64::MAX / 2_000) };
            let verdict = lease.verdict(&TIMES, at(watermark), at(watermark + later));
            prop_assert_ne!(verdict, Verdict::Lost);
        }
    }

    #[test]
    fn silence_ends_a_lease_and_an_unconfirmed_one_sooner() {
        let mut lease = Lease { renewed_at: at(10_000), accepted: true, deadline_at: at(60_000) };
        assert_eq!(lease.verdict(&TIMES, at(0), at(13_000)), Verdict::Valid);
        assert_eq!(lease.verdict(&TIMES, at(0), at(13_001)), Verdict::Lost);
        lease.accepted = false;
        assert_eq!(lease.verdict(&TIMES, at(0), at(11_000)), Verdict::Valid);
        assert_eq!(lease.verdict(&TIMES, at(0), at(11_001)), Verdict::Return);
    }

    #[test]
    fn a_run_that_renews_for_ever_is_overdue_at_last() {
        let lease = Lease { renewed_at: at(61_500), accepted: true, deadline_at: at(60_000) };
        assert_eq!(lease.verdict(&TIMES, at(0), at(60_900)), Verdict::Valid);
        assert_eq!(lease.verdict(&TIMES, at(0), at(61_600)), Verdict::Overdue);
        let unconfirmed = Lease { accepted: false, ..lease };
        assert_eq!(unconfirmed.verdict(&TIMES, at(0), at(61_600)), Verdict::Valid, "it is returned, sooner or later");
    }

    #[test]
    fn a_run_is_overdue_once_the_grace_has_passed_and_was_listened_to() {
        let lease = Lease { renewed_at: at(60_500), accepted: true, deadline_at: at(60_000) };
        assert_eq!(lease.verdict(&TIMES, at(0), at(61_000)), Verdict::Valid);
        assert_eq!(lease.verdict(&TIMES, at(0), at(61_001)), Verdict::Overdue);
        assert_eq!(lease.verdict(&TIMES, at(60_400), at(61_400)), Verdict::Valid);
        assert_eq!(lease.verdict(&TIMES, at(60_400), at(61_401)), Verdict::Overdue);
    }
}
