//! The clock a ledger decides by, and whether it is believed.
//!
//! *Known moment*: the newest moment at which the ledger was written to. *Held*: the deciding clock is far from it
//! ([`ClockRules`]). While it is held, time goes on from the known moment at the pace of the monotonic clock, so that
//! nothing is computed from a wrong time; who would do something irreversible asks [`LedgerClock::is_held`] first. A clock
//! that comes near again, or that a person accepts, is believed again.
//! On PostgreSQL the deciding clock is the database's: each transaction brings what it says ([`LedgerClock::observe`]), and
//! in between it is carried on by our own steady clock.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_model::Timestamp;
use bowline_model::clock::{ClockRules, Distance};

use crate::Clock;

/// Where the clock stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockStatus {
    /// The time by which the ledger decides.
    pub now: Timestamp,
    /// What the deciding clock itself says.
    pub clock: Timestamp,
    /// Since when, in the ledger's time, the clock is not believed; `None` while it is.
    pub held_since: Option<Timestamp>,
}

impl ClockStatus {
    pub const fn is_held(&self) -> bool {
        self.held_since.is_some()
    }
}

/// What came of accepting the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockAccepted {
    /// The ledger's time until now, and from now on.
    pub before: Timestamp,
    pub now: Timestamp,
    /// `false`: the clock was believed already, and nothing changed.
    pub was_held: bool,
}

#[derive(Debug, Clone, Copy)]
struct Hold {
    /// The known moment when the clock was found to be far away.
    since_us: i64,
    /// What our steady clock said then.
    steady_us: i64,
}

#[derive(Debug, Default)]
struct State {
    hold: Option<Hold>,
    /// The last acceptance the ledger told us of.
    accepted: Option<String>,
}

/// The deciding clock of one ledger.
#[derive(Debug)]
pub struct LedgerClock {
    steady: Arc<dyn Clock>,
    /// `None`: the clock is believed whatever it says.
    rules: Option<ClockRules>,
    /// By how much the deciding clock is ahead of the steady one.
    ahead_us: AtomicI64,
    held: AtomicBool,
    /// The known moment; [`UNKNOWN`] while there is none.
    known_us: AtomicI64,
    state: Mutex<State>,
}

/// Earlier than any moment.
const UNKNOWN: i64 = i64::MIN;

impl LedgerClock {
    pub fn new(steady: Arc<dyn Clock>, rules: Option<ClockRules>) -> Arc<Self> {
        let (held, state) = (AtomicBool::new(false), Mutex::default());
        let known_us = AtomicI64::new(UNKNOWN);
        Arc::new(Self { steady, rules, ahead_us: AtomicI64::new(0), held, known_us, state })
    }

    /// The database says what time it is; the answer is the time to decide by.
    pub fn observe(&self, said: Timestamp) -> Timestamp {
        let steady = self.steady.now();
        self.ahead_us.store(said.as_micros().saturating_sub(steady.as_micros()), Ordering::Relaxed);
        self.judge(said, steady)
    }

    /// The ledger was written to at this moment, and accepted a clock so.
    pub fn learn(&self, known: Option<Timestamp>, accepted: Option<String>) {
        let mut state = self.state();
        self.known_us.fetch_max(known.map_or(UNKNOWN, Timestamp::as_micros), Ordering::AcqRel);
        state.accepted = accepted;
    }

    /// What the deciding clock itself says, believed or not.
    pub fn said(&self) -> Timestamp {
        self.ahead(self.steady.now())
    }

    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    pub fn status(&self) -> ClockStatus {
        let now = self.now();
        let held_since = self.state().hold.map(|hold| Timestamp::from_micros(hold.since_us));
        ClockStatus { now, clock: self.said(), held_since }
    }

    /// Believes the clock from now on.
    pub fn accept(&self, accepted: Option<String>) {
        let said = self.said().as_micros();
        let mut state = self.state();
        self.known_us.store(said, Ordering::Release);
        state.hold = None;
        state.accepted = accepted;
        self.held.store(false, Ordering::Release);
    }

    /// Whether the ledger accepted a clock that we have not heard of: another server did.
    pub fn is_news(&self, accepted: Option<&str>) -> bool {
        self.state().accepted.as_deref() != accepted
    }

    fn ahead(&self, steady: Timestamp) -> Timestamp {
        Timestamp::from_micros(steady.as_micros().saturating_add(self.ahead_us.load(Ordering::Relaxed)))
    }

    fn judge(&self, said: Timestamp, steady: Timestamp) -> Timestamp {
        let Some(rules) = self.rules else { return said };
        let is_near =
            |known_us| known_us == UNKNOWN || rules.distance(Timestamp::from_micros(known_us), said) == Distance::Near;
        // The clock is asked several times for each request, and is nearly always believed.
        if !self.is_held() && is_near(self.known_us.load(Ordering::Acquire)) {
            self.known_us.fetch_max(said.as_micros(), Ordering::AcqRel);
            return said;
        }
        let mut state = self.state();
        if let Some(hold) = state.hold {
            let passed = steady.as_micros().saturating_sub(hold.steady_us);
            let now = Timestamp::from_micros(hold.since_us.saturating_add(passed));
            if rules.distance(now, said) != Distance::Near {
                return now;
            }
            state.hold = None;
            self.held.store(false, Ordering::Release);
        } else {
            // Somebody may have accepted the clock since the look above.
            let known_us = self.known_us.load(Ordering::Acquire);
            if !is_near(known_us) {
                state.hold = Some(Hold { since_us: known_us, steady_us: steady.as_micros() });
                self.held.store(true, Ordering::Release);
                return Timestamp::from_micros(known_us);
            }
        }
        self.known_us.fetch_max(said.as_micros(), Ordering::AcqRel);
        said
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for LedgerClock {
    fn now(&self) -> Timestamp {
        let steady = self.steady.now();
        self.judge(self.ahead(steady), steady)
    }

    fn outside(&self) -> Timestamp {
        self.said()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManualClock;

    const DAY_MS: i64 = 86_400_000;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + millis)
    }

    /// A ledger last written to at `at(0)`, opened by a machine whose clock says `at(says)`.
    fn opened(says: i64) -> (Arc<LedgerClock>, Arc<ManualClock>) {
        let machine = ManualClock::at(at(says));
        let clock = LedgerClock::new(machine.clone(), Some(ClockRules::default()));
        clock.learn(Some(at(0)), None);
        (clock, machine)
    }

    #[test]
    fn a_far_clock_is_held_and_time_goes_on_from_the_last_known_moment() {
        for says in [400 * DAY_MS, -121_000] {
            let (clock, machine) = opened(says);
            assert_eq!(clock.now(), at(0));
            machine.advance_ms(5_000);
            assert_eq!(clock.now(), at(5_000));
            assert_eq!(clock.said(), at(says + 5_000));
            assert_eq!(clock.status().held_since, Some(at(0)));
        }
    }

    #[test]
    fn a_near_clock_is_believed_and_so_is_any_clock_of_a_new_ledger() {
        for says in [0, 29 * DAY_MS, -119_000] {
            let (clock, _) = opened(says);
            assert_eq!((clock.now(), clock.is_held()), (at(says), false));
        }
        let new = LedgerClock::new(ManualClock::at(at(400 * DAY_MS)), Some(ClockRules::default()));
        assert_eq!((new.now(), new.is_held()), (at(400 * DAY_MS), false));
    }

    #[test]
    fn an_accepted_clock_is_believed_from_then_on() {
        let (clock, machine) = opened(400 * DAY_MS);
        clock.now();
        clock.accept(Some("1".to_owned()));
        assert_eq!((clock.now(), clock.is_held()), (at(400 * DAY_MS), false));
        machine.advance_ms(DAY_MS);
        assert_eq!(clock.now(), at(401 * DAY_MS));
        assert!(!clock.is_news(Some("1")) && clock.is_news(Some("2")));
    }

    #[test]
    fn a_database_whose_clock_jumps_is_held_and_believed_again_when_it_comes_back() {
        let machine = ManualClock::at(at(0));
        let clock = LedgerClock::new(machine.clone(), Some(ClockRules::default()));
        assert_eq!(clock.observe(at(7_000)), at(7_000), "the database's clock is the one that counts");
        assert_eq!(clock.now(), at(7_000));
        machine.advance_ms(1_000);
        assert_eq!(clock.observe(at(400 * DAY_MS)), at(7_000));
        machine.advance_ms(1_000);
        assert_eq!(clock.observe(at(400 * DAY_MS + 1_000)), at(8_000));
        assert!(clock.is_held());
        machine.advance_ms(1_000);
        assert_eq!(clock.observe(at(10_000)), at(10_000));
        assert!(!clock.is_held());
    }
}
