//! The worker protocol: one endpoint, one file.

mod drain;
mod evidence;
mod handout;
mod heartbeat;
mod list;
mod register;
mod resources;
mod result;
mod secrets;
mod ship;
mod tasks;
mod tell;

pub use drain::{DrainAnswer, DrainRequest, drain};
pub use evidence::{ListQuery as UnknownRunQuery, UnknownRunPage, list_unknown_runs, offer};
pub use handout::Unwritten;
pub use heartbeat::heartbeat;
pub use list::{WorkerList, list};
pub use register::register;
pub use result::result;
pub use ship::ship;
pub use tasks::tasks;
pub use tell::tell;
