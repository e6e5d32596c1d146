//! Commands on fleets: what a command is, on how many hosts at a time it runs, who must approve it.

mod command;
mod template;

pub use command::{ApprovalRule, BadCommand, CommandSpec, HostLock, PinnedCommand};
pub use template::{BadTemplate, Cannot, HostScope, Reference, Scope, Template};
