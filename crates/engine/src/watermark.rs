//! Since when we have been listening without a break.
//!
//! Nobody is called silent for a time in which we could not have heard them: not after a start, not after the ledger was
//! away, not after our own process stood still, not when the ledger's time was set to another.

use std::time::Duration;

use bowline_model::Timestamp;

/// Where the ledger's time moves otherwise than ours by more than this, it was set, and says nothing about silence.
const JUMP_MS: u64 = 5_000;

/// The moment since which silence counts.
#[derive(Debug, Clone, Copy)]
pub struct Watermark {
    since: Timestamp,
    /// What the ledger's time was when it last answered.
    answered: Timestamp,
    broken: bool,
}

impl Watermark {
    pub const fn starting_at(now: Timestamp) -> Self {
        Self { since: now, answered: now, broken: false }
    }

    /// The ledger could not be reached.
    pub const fn ledger_away(&mut self) {
        self.broken = true;
    }

    /// The ledger answered at `now`, `gap` after we last looked; we meant to look every `beat`.
    pub fn ledger_answered(&mut self, now: Timestamp, gap: Duration, beat: Duration) {
        let passed = now.millis_since(self.answered);
        let jumped = passed.abs_diff(i64::try_from(gap.as_millis()).unwrap_or(i64::MAX)) > JUMP_MS;
        self.answered = now;
        if self.broken || jumped || gap > beat * 3 + Duration::from_millis(500) {
            self.since = now;
            self.broken = false;
        }
    }

    pub const fn since(&self) -> Timestamp {
        self.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_set_begins_the_silence_anew() {
        let at = Timestamp::from_millis;
        let beat = Duration::from_millis(500);
        for jump in [40 * 86_400_000, -3_600_000] {
            let mut mark = Watermark::starting_at(at(0));
            mark.ledger_answered(at(500), beat, beat);
            mark.ledger_answered(at(1_000 + jump), beat, beat);
            assert_eq!(mark.since(), at(1_000 + jump));
            mark.ledger_answered(at(1_500 + jump), beat, beat);
            assert_eq!(mark.since(), at(1_000 + jump), "and then it goes on");
        }
    }

    #[test]
    fn an_outage_and_a_pause_both_begin_the_silence_anew() {
        let at = Timestamp::from_millis;
        let beat = Duration::from_millis(500);
        let mut mark = Watermark::starting_at(at(0));
        mark.ledger_answered(at(500), beat, beat);
        assert_eq!(mark.since(), at(0));
        mark.ledger_away();
        mark.ledger_answered(at(60_000), beat, beat);
        assert_eq!(mark.since(), at(60_000));
        mark.ledger_answered(at(90_000), Duration::from_secs(30), beat);
        assert_eq!(mark.since(), at(90_000));
    }
}
