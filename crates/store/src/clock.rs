//! What time it is: the only place that asks the machine.
//!
//! *Steady*: a clock that leases and timers can be trusted to. The wall clock is read once, at the start; from then on
//! time passes by the monotonic clock, and differences to the wall clock are made good by at most one millisecond a
//! second. So a jump of the wall clock expires no lease and fires no timer.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bowline_model::Timestamp;
use bowline_model::planted::{self, Mistake};

/// Tells the time.
pub trait Clock: Send + Sync + std::fmt::Debug {
    fn now(&self) -> Timestamp;
    /// What the machine says, also where it is not believed. For what others decide by their clocks, such as the lifetime of
    /// their tokens.
    fn outside(&self) -> Timestamp {
        self.now()
    }
}

#[derive(Debug)]
struct Anchor {
    /// What the steady clock showed at `seen`.
    shown_us: i64,
    seen: Instant,
    /// The latest time anybody was told; nobody is told an earlier one.
    told_us: i64,
}

/// The clock of a running server.
#[derive(Debug)]
pub struct SteadyClock {
    anchor: Mutex<Anchor>,
}

impl SteadyClock {
    const SLEW_US_PER_S: i64 = 1_000;

    pub fn start() -> Arc<Self> {
        Arc::new(Self { anchor: Mutex::new(Anchor { shown_us: wall_us(), seen: Instant::now(), told_us: 0 }) })
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        if planted::on(Mistake::LeaseByWallClock) {
            return Timestamp::from_micros(wall_us());
        }
        let mut anchor = self.anchor.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let passed = i64::try_from(anchor.seen.elapsed().as_micros()).unwrap_or(i64::MAX);
        let mut shown = anchor.shown_us.saturating_add(passed);
        // Now and then, step a little towards the wall clock.
        if passed > 1_000_000 {
            let allowed = (passed / 1_000_000).saturating_mul(Self::SLEW_US_PER_S);
            shown += (wall_us() - shown).clamp(-allowed.min(passed), allowed);
            anchor.shown_us = shown;
            anchor.seen = Instant::now();
        }
        anchor.told_us = anchor.told_us.max(shown);
        Timestamp::from_micros(anchor.told_us)
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
fn wall_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_micros()).unwrap_or(i64::MAX))
}

/// A clock that tests and simulations turn by hand.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    pub fn at(start: Timestamp) -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(start.as_micros())))
    }

    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_micros(), Ordering::SeqCst);
    }

    pub fn advance_ms(&self, millis: i64) {
        self.0.fetch_add(millis * 1_000, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steady_clock_starts_at_wall_time_and_never_goes_back() {
        let clock = SteadyClock::start();
        let mut last = clock.now();
        assert!((last.as_micros() - wall_us()).abs() < 1_000_000);
        for _ in 0..1_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }
}
