//! Processes, by names that cannot be confused: who they are, whose they are, and how they are ended.

mod cgroup;
mod identity;
mod system;
mod table;
mod tree;

pub(crate) use cgroup::Cgroups;
pub use identity::Identity;
pub(crate) use identity::boot_id;
pub(crate) use system::{close_inherited, landlock_version, order_signals, restrict_self};
pub(crate) use tree::{Exit, RUN_VARIABLE, Tree, end_orphans, reap};
