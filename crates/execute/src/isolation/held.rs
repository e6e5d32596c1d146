//! By what each limit of a run is held, as it is and not as it was wished.

use std::collections::BTreeMap;

use bowline_model::fleet::Limits;
use rustix::process::{Resource, Rlimit, getrlimit};

use crate::log::HeldBy;

/// The limits of one run, each with what holds it.
pub(crate) struct Held {
    pub by: BTreeMap<String, HeldBy>,
    /// Those that a process takes upon itself.
    pub rlimits: Vec<(Resource, Rlimit)>,
}

impl Held {
    /// `unheld` are those that no control group holds; `is_root` whether the command is root, whom nobody counts.
    pub(crate) fn plan(limits: &Limits, unheld: &[String], is_root: bool) -> Self {
        let mut held = Self { by: BTreeMap::new(), rlimits: Vec::new() };
        let in_group = |name: &str| !unheld.iter().any(|other| other == name);
        if let Some(max) = limits.pids_max {
            let by = match in_group("pids_max") {
                true => HeldBy::Group,
                false if is_root => HeldBy::Nothing,
                false => held.take(Resource::Nproc, max, HeldBy::User),
            };
            held.by.insert("pids_max".to_owned(), by);
        }
        if let Some(max) = limits.memory_max_bytes {
            let by = match in_group("memory_max_bytes") {
                true => HeldBy::Group,
                false => held.take(Resource::As, max, HeldBy::Process),
            };
            held.by.insert("memory_max_bytes".to_owned(), by);
        }
        if limits.cpu_max_percent.is_some() {
            // There is a limit for the time a process may have, and none for its share.
            let by = if in_group("cpu_max_percent") { HeldBy::Group } else { HeldBy::Nothing };
            held.by.insert("cpu_max_percent".to_owned(), by);
        }
        if let Some(max) = limits.file_max_bytes {
            let by = held.take(Resource::Fsize, max, HeldBy::Process);
            held.by.insert("file_max_bytes".to_owned(), by);
        }
        held
    }

    fn take(&mut self, resource: Resource, max: u64, by: HeldBy) -> HeldBy {
        // What is tighter already stays so: only root may raise it.
        let max = Some(getrlimit(resource).maximum.map_or(max, |now| now.min(max)));
        self.rlimits.push((resource, Rlimit { current: max, maximum: max }));
        by
    }

    pub(crate) fn unenforced(&self) -> Vec<String> {
        let nothing = self.by.iter().filter(|(_, by)| **by == HeldBy::Nothing);
        nothing.map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_group_holds_is_held_by_less_or_by_nothing_and_says_so() {
        let limits = Limits {
            pids_max: Some(5),
            memory_max_bytes: Some(1 << 30),
            cpu_max_percent: Some(50),
            file_max_bytes: Some(9),
        };
        let all = ["pids_max", "memory_max_bytes", "cpu_max_percent"].map(str::to_owned);
        let by = |unheld: &[String], is_root| {
            let held = Held::plan(&limits, unheld, is_root);
            (serde_json::to_string(&held.by).unwrap(), held.rlimits.len(), held.unenforced().join(" "))
        };
        let says = |pids: &str, memory: &str, cpu: &str| {
            format!(
                r#"{{"cpu_max_percent":"{cpu}","file_max_bytes":"process","memory_max_bytes":"{memory}","pids_max":"{pids}"}}"#
            )
        };
        assert_eq!(by(&[], true), (says("group", "group", "group"), 1, String::new()));
        assert_eq!(by(&all, false), (says("user", "process", "nothing"), 3, "cpu_max_percent".to_owned()));
        assert_eq!(by(&all, true), (says("nothing", "process", "nothing"), 2, "cpu_max_percent pids_max".to_owned()));
        assert_eq!(Held::plan(&Limits::default(), &all, true).by.len(), 0);
    }
}
