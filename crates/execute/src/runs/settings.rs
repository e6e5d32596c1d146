//! What an agent decides about all its runs.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::Clock;

#[derive(Clone)]
pub struct Settings {
    /// The program that is a keeper, and its first arguments. The run directory is added to them.
    pub keeper: Vec<OsString>,
    pub clock: Clock,
    /// New runs are refused when the disk has less room than this.
    pub free_min_bytes: u64,
    /// What each run sets aside for its last events on a full disk.
    pub reserve_bytes: u64,
    /// How many executed runs are remembered after their directories are gone.
    pub journal_max: usize,
    /// The control group in which runs get their own. The agent's own unless given.
    pub cgroup_parent: Option<PathBuf>,
    /// Commands run as other users than the agent's. They must be able to pass through its directory, though not to read it.
    pub other_users: bool,
    /// What no command in a sandbox may see, besides the agent's directory.
    pub private: Vec<PathBuf>,
}

impl Settings {
    pub fn new(keeper: impl IntoIterator<Item = impl Into<OsString>>, clock: Clock) -> Self {
        Self {
            keeper: keeper.into_iter().map(Into::into).collect(),
            clock,
            free_min_bytes: 64 << 20,
            reserve_bytes: 64 << 10,
            journal_max: 100_000,
            cgroup_parent: None,
            other_users: false,
            private: Vec::new(),
        }
    }
}
