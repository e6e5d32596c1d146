//! Schedules as they stand: when they fire, what came of it. What a schedule says is a resource like any other.

mod get;
mod list;
mod preview;
mod problem;
mod trigger;
mod view;

pub use get::{GetQuery, ScheduleAnswer, get};
pub use list::{ListQuery, SchedulePage, list};
pub use preview::{PreviewAnswer, PreviewRequest, preview};
pub use trigger::{TriggerRequest, trigger};
