//! Whether a clock can be believed.
//!
//! *Far*: further from the ledger's last known moment than the rules allow, in either direction. A clock that is far away
//! decides nothing irreversible until a person has accepted it.
//! Never here: asking a clock.

use crate::time::Timestamp;

/// How far the deciding clock may be from the last moment the ledger knows of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockRules {
    /// Back by more than this is far.
    pub back_max_ms: i64,
    /// Forward by more than this is far.
    pub gap_max_ms: i64,
}

impl Default for ClockRules {
    fn default() -> Self {
        Self { back_max_ms: 2 * 60_000, gap_max_ms: 30 * 86_400_000 }
    }
}

/// Where a clock stands, seen from the last known moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distance {
    Near,
    TooFarBack,
    TooFarAhead,
}

impl ClockRules {
    pub fn distance(&self, known: Timestamp, clock: Timestamp) -> Distance {
        if clock < known.plus_millis(self.back_max_ms.saturating_neg()) {
            Distance::TooFarBack
        } else if clock > known.plus_millis(self.gap_max_ms) {
            Distance::TooFarAhead
        } else {
            Distance::Near
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_minutes_back_and_thirty_days_ahead_are_near_and_a_moment_more_is_far() {
        let (rules, known) = (ClockRules::default(), Timestamp::from_millis(1_800_000_000_000));
        let at = |millis: i64| rules.distance(known, known.plus_millis(millis));
        assert_eq!(at(0), Distance::Near);
        assert_eq!(at(-120_000), Distance::Near);
        assert_eq!(at(-120_001), Distance::TooFarBack);
        assert_eq!(at(30 * 86_400_000), Distance::Near);
        assert_eq!(at(30 * 86_400_000 + 1), Distance::TooFarAhead);
    }
}
