//! Schedules: what is started again and again, and when.
//!
//! *Instant*: a moment at which a schedule wants something started. *Considered*: what has been decided about, one way or the
//! other; each instant is considered once. *Missed*: considered later than the schedule's grace allows.
//! Everything here is a function of the schedule, of what was considered before, and of the time it is now.

mod cron;
mod look;
mod spec;
#[cfg(test)]
mod tests;
mod zone;

pub use cron::{Cron, NotACron};
pub use look::Look;
pub use spec::{Misfire, Overlap, ScheduleSpec};
pub use zone::{NotAZone, Zone};
