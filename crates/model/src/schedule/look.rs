//! One look at a schedule: which of its instants are to be started now, and which were missed.

use super::{Misfire, ScheduleSpec};
use crate::time::Timestamp;

/// What a look at a schedule comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Instants of which each gets a job, oldest first.
    pub fire: Vec<Timestamp>,
    /// Instants that get none because they were missed; counted up to about a thousand.
    pub missed: u64,
    /// Everything up to here has been considered now.
    pub to: Timestamp,
    /// When to look again; `None` if there is nothing to wait for.
    pub again_at: Option<Timestamp>,
}

/// Instants that are started by one look, if none was missed.
const FIRE_MAX: usize = 1_000;
/// Missed instants are counted up to here.
const COUNT_MAX: usize = 1_000;
/// Even when nothing is due for long: rules of time zones change with the program.
const LOOK_AT_LEAST_MS: i64 = 24 * 60 * 60 * 1_000;

impl ScheduleSpec {
    /// What to do about the instants after `seen`, which is how far they have been considered, up to now. A clock that was
    /// put back is waited for: nothing is considered twice.
    pub fn look(&self, seen: Timestamp, now: Timestamp) -> Look {
        if !self.enabled {
            return Look { fire: Vec::new(), missed: 0, to: seen.max(now), again_at: None };
        }
        if now <= seen {
            return Look { fire: Vec::new(), missed: 0, to: seen, again_at: self.wait(seen, seen) };
        }
        let grace = i64::try_from(self.grace_ms).unwrap_or(i64::MAX);
        // The last moment of which instants are missed.
        let late_until = Timestamp::from_micros(now.plus_millis(-grace).as_micros().saturating_sub(1));
        let mut late = if late_until > seen { self.latest(seen, late_until) } else { Vec::new() };
        let mut fire: Vec<Timestamp> = self.instants(seen.max(late_until), now).take(FIRE_MAX).collect();
        let full = fire.len() == FIRE_MAX;
        let found = late.len();
        late = match self.misfire {
            Misfire::Skip => Vec::new(),
            // An instant that is on time stands for those before it, too.
            Misfire::Once if !fire.is_empty() => Vec::new(),
            Misfire::Once => late.split_off(found.saturating_sub(1)),
            Misfire::All => late.split_off(found.saturating_sub(self.misfire_max as usize)),
        };
        let missed = (found - late.len()) as u64;
        late.append(&mut fire);
        let fire = late;
        let (to, again_at) = match fire.last() {
            // There may be more: they are considered by the next look, which is due at once.
            Some(last) if full => (*last, Some(now)),
            _ => (now, self.wait(now, now)),
        };
        Look { fire, missed, to, again_at }
    }

    fn wait(&self, after: Timestamp, now: Timestamp) -> Option<Timestamp> {
        self.next_after(after).map(|next| next.min(now.plus_millis(LOOK_AT_LEAST_MS)))
    }

    /// The instants after one moment, up to and with another one.
    fn instants(&self, after: Timestamp, until: Timestamp) -> impl Iterator<Item = Timestamp> {
        std::iter::successors(self.next_after(after), |at| self.next_after(*at)).take_while(move |at| *at <= until)
    }

    /// The last instants up to a moment: all of them, or at least [`COUNT_MAX`]. Looks back a little, then further, so that
    /// a year of missed seconds costs no more than a thousand of them.
    fn latest(&self, after: Timestamp, until: Timestamp) -> Vec<Timestamp> {
        let mut width_ms = 60_000;
        loop {
            let from = until.plus_millis(-width_ms).max(after);
            let found: Vec<Timestamp> = self.instants(from, until).collect();
            if from == after || found.len() >= COUNT_MAX {
                return found;
            }
            width_ms = width_ms.saturating_mul(4);
        }
    }
}
