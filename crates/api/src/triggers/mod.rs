//! Triggers as they stand: whether their queues are read, and what came of it. What a trigger says is a resource like any other.

mod get;
mod list;
mod view;

pub use get::{TriggerAnswer, get};
pub use list::{ListQuery, TriggerPage, list};
