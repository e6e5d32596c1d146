//! The worker library: handlers for tasks of any type, in any program.
//!
//! *In hand*: a task from the moment it arrived until its end was told. *Accepted*: named in a heartbeat that was
//! answered; only then does its handler start, and a given task starts at most once. *Cut off*: no heartbeat got through
//! for so long that, by our own clock, the lease may be over.

mod accept;
mod builder;
mod context;
mod day;
mod hand;
mod handlers;
mod lease;
mod progress;
mod results;
mod run;
mod shared;
mod task_error;

pub use builder::{BuildError, WorkerBuilder};
pub use context::TaskContext;
pub use day::Worker;
pub use progress::ProgressError;
pub use task_error::TaskError;
