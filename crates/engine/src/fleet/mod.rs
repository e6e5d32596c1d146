//! The fleet: which hosts there are, what may run on them, and running it.

mod commands;
mod conductor;
mod inventories;
mod params;
mod resources;
mod why;

pub use commands::{CommandChoice, CommandError, CommandRequest, Commands, HostChoice, Resolved, VoteRequest};
pub(crate) use conductor::conduct_forever;
pub use inventories::{Inventories, SELECTION_STEPS_MAX, Snapshot};
pub use params::{BadParams, check_params, check_schema, check_stored_schema};
pub use resources::{PutError, Resources};
pub(crate) use why::explain_command;
