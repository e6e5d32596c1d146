//! What this machine gives for keeping commands from it. Told to people and to the server as it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bowline_model::fleet::{Limits, Sandbox};
use serde::Serialize;

use super::filter;
use super::held::Held;
use super::walls::{NoSandbox, is_in_sight};
use crate::log::HeldBy;
use crate::process::{Cgroups, landlock_version};

/// The version from which on nothing can be changed that cannot be written to.
pub(super) const LANDLOCK_MIN: u32 = 3;

/// What can be enforced here, as far as it can be known before a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Whether this process may become other users.
    pub root: bool,
    /// The version of Landlock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub landlock: Option<u32>,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
    /// By what each limit would be held for a command whose user is not root.
    pub limits: BTreeMap<String, HeldBy>,
}

impl Machine {
    /// Looks, and tries: a control group is made and removed again.
    pub fn look(cgroup_parent: Option<&Path>) -> Self {
        let all = Limits {
            pids_max: Some(1 << 20),
            memory_max_bytes: Some(1 << 40),
            cpu_max_percent: Some(10_000),
            file_max_bytes: Some(1 << 40),
        };
        let unheld = Cgroups::try_out(&all, cgroup_parent);
        Self {
            root: rustix::process::geteuid().is_root(),
            landlock: landlock_version(),
            seccomp: filter::is_there(),
            limits: Held::plan(&all, &unheld, false).by,
        }
    }

    /// Whether a command can have a sandbox here from which none of these paths is seen.
    pub(crate) fn can(sandbox: Sandbox, private: &[PathBuf]) -> Result<(), NoSandbox> {
        if sandbox.is_none() {
            return Ok(());
        }
        match landlock_version() {
            None => return Err(NoSandbox::NoLandlock),
            Some(version) if version < LANDLOCK_MIN => return Err(NoSandbox::OldLandlock(version)),
            Some(_) => {}
        }
        if !filter::is_there() {
            return Err(NoSandbox::NoSeccomp);
        }
        private.iter().find(|path| is_in_sight(path)).map_or(Ok(()), |path| Err(NoSandbox::InSight(path.clone())))
    }

    /// Why commands cannot have a sandbox here, if so.
    pub fn sandbox(&self) -> Result<(), NoSandbox> {
        Self::can(Sandbox::Strict, &[])
    }

    /// In one line, for people.
    pub fn describe(&self) -> String {
        let sandbox = match self.sandbox() {
            Ok(()) => format!("sandbox yes (Landlock {})", self.landlock.unwrap_or(0)),
            Err(why) => format!("sandbox no: {why}"),
        };
        let limits = self.limits.iter().map(|(name, by)| {
            let by = match by {
                HeldBy::Group => "together",
                HeldBy::User => "for each user",
                HeldBy::Process => "for each process",
                HeldBy::Nothing => "NOT ENFORCED",
            };
            format!("{name} {by}")
        });
        format!("{sandbox}; limits: {}", limits.collect::<Vec<_>>().join(", "))
    }
}
