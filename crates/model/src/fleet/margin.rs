//! How long a host is kept after a run there went missing.
//!
//! *Missing*: nobody knows whether the run still goes on. Its agent fell silent, or says itself that it lost sight of it. A
//! host with an agent of its own has a gate on the spot: that agent begins nothing beside what still runs. A host that
//! several agents reach has none, and the next run could come through another of them. So the ledger keeps such a host
//! until the missing run could not possibly be at it any more.

use crate::time::Timestamp;

/// Before a run begins and after it must end, connections are made; this is what they may take.
const CONNECTING_MS: i64 = 60_000;

/// A run of which nobody knows whether it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing {
    pub claimed_at: Timestamp,
    /// How long it may take, and how long it may take to stop.
    pub timeout_ms: u64,
    pub kill_grace_ms: u64,
}

/// The numbers a server keeps hosts by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarginRules {
    /// An agent may begin a run this long after it got it: a lease.
    pub start_ms: i64,
    /// No host is kept for longer than this. 0 keeps none.
    pub max_ms: i64,
}

impl Default for MarginRules {
    fn default() -> Self {
        Self { start_ms: 30_000, max_ms: 24 * 60 * 60 * 1_000 }
    }
}

impl MarginRules {
    /// Until when its host is kept; `None` if it must be over already.
    pub fn until(&self, run: &Missing, now: Timestamp) -> Option<Timestamp> {
        let whole = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX / 4_000);
        let longest = [whole(run.timeout_ms), whole(run.kill_grace_ms), self.start_ms, CONNECTING_MS];
        let over = run.claimed_at.plus_millis(longest.into_iter().fold(0, i64::saturating_add));
        Some(over.min(now.plus_millis(self.max_ms))).filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_kept_until_the_run_must_be_over() {
        let rules = MarginRules { start_ms: 3_000, max_ms: 500_000 };
        let run = Missing { claimed_at: Timestamp::from_millis(1_000), timeout_ms: 100_000, kill_grace_ms: 10_000 };
        let over = Timestamp::from_millis(1_000 + 100_000 + 10_000 + 3_000 + CONNECTING_MS);
        assert_eq!(rules.until(&run, Timestamp::from_millis(5_000)), Some(over));
        assert_eq!(rules.until(&run, over), None, "then it is free");
        let week = Missing { timeout_ms: 604_800_000, ..run };
        let now = Timestamp::from_millis(5_000);
        assert_eq!(rules.until(&week, now), Some(now.plus_millis(500_000)), "but not for ever");
        assert_eq!(MarginRules { max_ms: 0, ..rules }.until(&run, now), None);
    }
}
