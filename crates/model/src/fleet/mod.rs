//! Commands on fleets: what a command is, how it spreads over hosts, whose turn it is there, who must approve it.

mod approval;
mod command;
mod life;
mod rollout;
mod targets;
mod template;
mod turns;

pub use approval::{Approval, ApprovalRefused, ApprovalState, Decided, Vote};
pub use command::{ApprovalRule, CommandSpec, HostLock, PinnedCommand};
pub use life::{CommandFact, End};
pub use rollout::{BITE, BadRollout, Move, NotAShare, Progress, Rollout, Share, Sweep, Tally};
pub use targets::{DamagedTargets, read_targets, write_targets};
pub use template::{BadTemplate, Cannot, HostScope, Reference, Scope, Template};
pub use turns::{Turn, grant};
