//! What can be started, by whomever: a request, a schedule, a message. One definition for all of them.
//!
//! [`SubmitRequest`] is the shape people write; [`StartSpec`] is what it comes to: a task for workers, a command on hosts, or
//! a workflow. What belongs to one single ask (its keys, its moment) is in the first and not in the second, because a
//! schedule starts the same thing many times.

mod command;
mod payload;
mod request;
mod spec;

pub use command::{CommandField, VersionedName};
pub use payload::Payload;
pub use request::{Asked, Misplaced, SubmitRequest};
pub use spec::{CommandStart, RunField, StartSpec, TaskStart, WorkflowStart};
