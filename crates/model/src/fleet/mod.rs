//! Commands on fleets: what a command is, how it spreads over hosts, whose turn it is there, how long a
//! host is kept when a run went missing, who must approve it.

mod approval;
mod approved;
mod command;
mod isolation;
mod life;
mod margin;
mod rollout;
mod targets;
mod template;
mod turns;

pub use approval::{Approval, ApprovalRefused, ApprovalState, Decided, Vote};
pub use approved::{HostDigest, Named, SecretIdentity, approval_hash, read_digests, write_digests};
pub use command::{ApprovalRule, CommandRetries, CommandSpec, HostLock, PinnedCommand, SCOPE_STEPS_MAX};
pub use isolation::{Limits, Sandbox};
pub use life::{CommandFact, End};
pub use margin::{MarginRules, Missing};
pub use rollout::{BITE, BadRollout, Move, NotAShare, Progress, Rollout, Share, Sweep, Tally};
pub use targets::{DamagedTargets, read_targets, write_targets};
pub use template::{BadTemplate, Cannot, HostScope, Reference, Scope, Template};
pub use turns::{Turn, grant};
