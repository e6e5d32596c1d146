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

/// The version from which on a sandboxed command can be kept from sending signals to others of its user.
const LANDLOCK_SIGNALS: u32 = 6;

fn new_enough(version: Option<u32>, shares_user: bool) -> Result<(), NoSandbox> {
    match version {
        None => Err(NoSandbox::NoLandlock),
        Some(version) if version < LANDLOCK_MIN => Err(NoSandbox::OldLandlock(version)),
        Some(version) if shares_user && version < LANDLOCK_SIGNALS => Err(NoSandbox::NoSignalScope(version)),
        Some(_) => Ok(()),
    }
}

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
    pub(crate) fn can(sandbox: Sandbox, shares_user: bool, private: &[PathBuf]) -> Result<(), NoSandbox> {
        if sandbox.is_none() {
            return Ok(());
        }
        new_enough(landlock_version(), shares_user)?;
        if !filter::is_there() {
            return Err(NoSandbox::NoSeccomp);
        }
        private.iter().find(|path| is_in_sight(path)).map_or(Ok(()), |path| Err(NoSandbox::InSight(path.clone())))
    }

    /// Why commands cannot have a sandbox here, if so.
    pub fn sandbox(&self) -> Result<(), NoSandbox> {
        Self::can(Sandbox::Strict, false, &[])
    }

    /// Whether the agent's directory can be closed to commands that have the agent's user, and its process be kept from them.
    pub fn can_close(&self) -> bool {
        self.landlock.is_some_and(|version| version >= LANDLOCK_MIN) && self.seccomp
    }

    /// Those of these limits that nothing on this machine holds; `is_root` whether the command runs as root, whom nobody counts.
    pub fn unheld(&self, limits: &Limits, is_root: bool) -> Vec<&str> {
        let asked = [
            ("pids_max", limits.pids_max),
            ("memory_max_bytes", limits.memory_max_bytes),
            ("cpu_max_percent", limits.cpu_max_percent),
            ("file_max_bytes", limits.file_max_bytes),
        ];
        let unheld = |name: &str| match self.limits.get(name) {
            None | Some(HeldBy::Nothing) => true,
            Some(HeldBy::User) => is_root,
            Some(HeldBy::Group | HeldBy::Process) => false,
        };
        asked.into_iter().filter(|(name, max)| max.is_some() && unheld(name)).map(|(name, _)| name).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_nothing_holds_are_named() {
        let by = |pids, cpu| BTreeMap::from([("pids_max".to_owned(), pids), ("cpu_max_percent".to_owned(), cpu)]);
        let machine = |limits| Machine { root: true, landlock: None, seccomp: true, limits };
        let asked = Limits { pids_max: Some(5), cpu_max_percent: Some(50), ..Limits::default() };
        let none: [&str; 0] = [];
        assert_eq!(machine(by(HeldBy::Group, HeldBy::Group)).unheld(&asked, true), none);
        let without_groups = machine(by(HeldBy::User, HeldBy::Nothing));
        assert_eq!(without_groups.unheld(&asked, false), ["cpu_max_percent"]);
        assert_eq!(without_groups.unheld(&asked, true), ["pids_max", "cpu_max_percent"]);
        assert_eq!(without_groups.unheld(&Limits::default(), true), none);
    }

    #[test]
    fn what_holds_each_limit_is_said_in_one_line() {
        let by = [("a", HeldBy::Group), ("b", HeldBy::User), ("c", HeldBy::Process), ("d", HeldBy::Nothing)];
        let limits = by.map(|(name, by)| (name.to_owned(), by)).into();
        let said = Machine { root: true, landlock: Some(7), seccomp: true, limits }.describe();
        let limits = "; limits: a together, b for each user, c for each process, d NOT ENFORCED";
        assert!(said.starts_with("sandbox ") && said.ends_with(limits), "{said}");
    }

    #[test]
    fn a_directory_is_closed_with_landlock_and_with_filters() {
        let can = |landlock, seccomp| Machine { root: true, landlock, seccomp, limits: BTreeMap::new() }.can_close();
        assert!(can(Some(3), true) && can(Some(7), true));
        assert!(!can(Some(2), true) && !can(None, true) && !can(Some(3), false));
    }

    #[test]
    fn a_sandbox_that_could_not_keep_signals_in_is_refused_where_the_user_is_shared() {
        assert_eq!(new_enough(None, false), Err(NoSandbox::NoLandlock));
        assert_eq!(new_enough(Some(2), false), Err(NoSandbox::OldLandlock(2)));
        assert_eq!(new_enough(Some(3), false), Ok(()));
        assert_eq!(new_enough(Some(5), true), Err(NoSandbox::NoSignalScope(5)));
        assert_eq!(new_enough(Some(6), true), Ok(()));
    }
}
