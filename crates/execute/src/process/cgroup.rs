//! A control group of a run's own, where the system allows one: nothing escapes from it, and limits hold for all in it.
//!
//! There are two worlds, and machines that live in both: in version 2 one tree has everything, in version 1 each
//! controller has a tree. A group is made in every tree that is there. None of it is required; a run without a group is
//! found through `/proc`, and its limits are named as not enforced.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bowline_model::RunId;
use bowline_model::fleet::Limits;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Controller {
    Unified,
    Pids,
    Memory,
    Cpu,
    Freezer,
}

impl Controller {
    const VERSION_1: [(&'static str, Self); 4] =
        [("pids", Self::Pids), ("memory", Self::Memory), ("cpu", Self::Cpu), ("freezer", Self::Freezer)];
}

/// A tree of groups, and where we are in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hierarchy {
    controller: Controller,
    root: PathBuf,
    ours: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Group {
    controller: Controller,
    path: PathBuf,
}

/// The groups of one run. Written into its start marker, so that whoever comes later finds what is in them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cgroups {
    groups: Vec<Group>,
    /// Where the keeper came from, and goes back to.
    #[serde(skip)]
    homes: Vec<PathBuf>,
    /// The keeper is in the groups itself: they must not be killed as a whole.
    #[serde(skip)]
    inside: bool,
}

impl Group {
    fn make(&self, limits: &Limits) -> io::Result<()> {
        let within = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(within)?;
        if self.controller == Controller::Unified {
            let wanted =
                [("+pids", limits.pids_max), ("+memory", limits.memory_max_bytes), ("+cpu", limits.cpu_max_percent)];
            for (controller, _) in wanted.iter().filter(|(_, limit)| limit.is_some()) {
                // Refused where processes live in the group itself. The limit is then told as not enforced.
                let _ = fs::write(within.join("cgroup.subtree_control"), controller);
            }
        }
        fs::create_dir(&self.path)
    }
}

impl Cgroups {
    /// Which groups the run should have. Nothing is made yet: first it is written down where they will be. `parent` is a
    /// group to make them in; our own unless given.
    pub(crate) fn plan(run: RunId, limits: &Limits, parent: Option<&Path>) -> Self {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let hierarchies = hierarchies(&text("/proc/self/mountinfo"), &text("/proc/self/cgroup"));
        Self::plan_in(&hierarchies, run, limits, parent)
    }

    /// Which of these limits could not be set for a run, found out by setting them for nobody.
    pub(crate) fn try_out(limits: &Limits, parent: Option<&Path>) -> Vec<String> {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let hierarchies = hierarchies(&text("/proc/self/mountinfo"), &text("/proc/self/cgroup"));
        let mut groups = Self::named_in(&hierarchies, &format!("bowline-probe-{}", std::process::id()), limits, parent);
        groups.groups.retain(|group| group.make(limits).is_ok());
        let unheld = groups.limit(limits, 0);
        groups.remove();
        unheld
    }

    fn plan_in(hierarchies: &[Hierarchy], run: RunId, limits: &Limits, parent: Option<&Path>) -> Self {
        Self::named_in(hierarchies, &format!("bowline-{run}"), limits, parent)
    }

    fn named_in(hierarchies: &[Hierarchy], name: &str, limits: &Limits, parent: Option<&Path>) -> Self {
        let mut plan = Self::default();
        for hierarchy in hierarchies {
            // A version 1 tree without a use would only be one more thing to clean up.
            let useless = match hierarchy.controller {
                Controller::Unified => false,
                Controller::Freezer => hierarchies.iter().any(|other| other.controller == Controller::Unified),
                Controller::Pids => limits.pids_max.is_none(),
                Controller::Memory => limits.memory_max_bytes.is_none(),
                Controller::Cpu => limits.cpu_max_percent.is_none(),
            };
            if !useless {
                let within = match parent {
                    Some(parent) => hierarchy.root.join(parent.strip_prefix("/").unwrap_or(parent)),
                    None => hierarchy.ours.clone(),
                };
                let path = within.join(name);
                plan.groups.push(Group { controller: hierarchy.controller, path });
                plan.homes.push(hierarchy.ours.clone());
            }
        }
        plan
    }

    /// Makes the groups and moves this process into them, so that what it spawns is born there. Groups that cannot be made
    /// or entered are dropped.
    pub(crate) fn enter(&mut self, limits: &Limits) {
        let me = std::process::id().to_string();
        let groups = std::mem::take(&mut self.groups).into_iter().zip(std::mem::take(&mut self.homes));
        for (group, home) in groups {
            if group.make(limits).is_ok() && fs::write(group.path.join("cgroup.procs"), &me).is_ok() {
                self.groups.push(group);
                self.homes.push(home);
            } else {
                let _ = fs::remove_dir(&group.path);
            }
        }
        self.inside = !self.groups.is_empty();
    }

    /// Moves this process back, and leaves behind what it spawned.
    pub(crate) fn leave(&mut self) {
        let me = std::process::id().to_string();
        self.inside = !self.homes.iter().all(|home| fs::write(home.join("cgroup.procs"), &me).is_ok());
    }

    /// Sets the limits, `spare` processes above the wanted number. Returns the names of limits that could not be set.
    pub(crate) fn limit(&self, limits: &Limits, spare: u64) -> Vec<String> {
        let set = |names: &[(Controller, &str)], value: String| {
            self.groups.iter().any(|group| {
                let mine = names.iter().filter(|(controller, _)| *controller == group.controller);
                mine.map(|(_, name)| group.path.join(name)).any(|file| file.exists() && fs::write(file, &value).is_ok())
            })
        };
        let mut unenforced = Vec::new();
        if let Some(max) = limits.pids_max
            && !set(&[(Controller::Unified, "pids.max"), (Controller::Pids, "pids.max")], (max + spare).to_string())
        {
            unenforced.push("pids_max".to_owned());
        }
        if let Some(max) = limits.memory_max_bytes
            && !set(
                &[(Controller::Unified, "memory.max"), (Controller::Memory, "memory.limit_in_bytes")],
                max.to_string(),
            )
        {
            unenforced.push("memory_max_bytes".to_owned());
        }
        // In every tenth of a second it may have so many microseconds.
        if let Some(share) = limits.cpu_max_percent.map(|percent| percent * 1_000)
            && !set(&[(Controller::Unified, "cpu.max")], format!("{share} 100000"))
            && !(set(&[(Controller::Cpu, "cpu.cfs_period_us")], "100000".to_owned())
                && set(&[(Controller::Cpu, "cpu.cfs_quota_us")], share.to_string()))
        {
            unenforced.push("cpu_max_percent".to_owned());
        }
        unenforced
    }

    /// Everybody in the groups, but for this process.
    pub(crate) fn members(&self) -> Vec<u32> {
        let me = std::process::id();
        let texts = self.groups.iter().filter_map(|group| fs::read_to_string(group.path.join("cgroup.procs")).ok());
        texts
            .flat_map(|text| text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<u32>>())
            .filter(|pid| *pid != me)
            .collect()
    }

    /// Ends everybody in the groups at once, if the system can. Whoever forks meanwhile is ended too.
    pub(crate) fn kill(&self) -> bool {
        let killed = |group: &Group| fs::write(group.path.join("cgroup.kill"), "1").is_ok();
        !self.inside && self.groups.iter().any(|group| group.controller == Controller::Unified && killed(group))
    }

    /// Keeps everybody in the groups from running, so that nobody forks while they are ended one by one. Version 1 only.
    pub(crate) fn freeze(&self, frozen: bool) {
        let state = if frozen { "FROZEN" } else { "THAWED" };
        for group in self.groups.iter().filter(|group| group.controller == Controller::Freezer && !self.inside) {
            let _ = fs::write(group.path.join("freezer.state"), state);
        }
    }

    /// How often the memory limit ended a process.
    pub(crate) fn memory_kills(&self) -> u64 {
        let texts = self.groups.iter().flat_map(|group| {
            ["memory.events", "memory.oom_control"].map(|name| fs::read_to_string(group.path.join(name)))
        });
        let counts = texts.flatten().filter_map(|text| {
            text.lines().find_map(|line| line.strip_prefix("oom_kill ")).and_then(|count| count.parse().ok())
        });
        counts.max().unwrap_or(0)
    }

    /// Removes the groups. Those with somebody in them stay.
    pub(crate) fn remove(&self) {
        for group in &self.groups {
            let _ = fs::remove_dir(&group.path);
        }
    }
}

/// Reads `/proc/self/mountinfo` and `/proc/self/cgroup`.
fn hierarchies(mounts: &str, memberships: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for mount in mounts.lines() {
        // 36 35 0:30 /root /mount/point options … - type source super-options
        let Some((before, after)) = mount.split_once(" - ") else { continue };
        let before: Vec<_> = before.split(' ').collect();
        let after: Vec<_> = after.split(' ').collect();
        let (&[_, _, _, mounted, point, ..], &[kind, _, options, ..]) = (before.as_slice(), after.as_slice()) else {
            continue;
        };
        let controllers: Vec<_> = match kind {
            "cgroup2" => vec![("", Controller::Unified)],
            "cgroup" => Controller::VERSION_1
                .into_iter()
                .filter(|(name, _)| options.split(',').any(|option| option == *name))
                .collect(),
            _ => continue,
        };
        for (name, controller) in controllers {
            let Some(path) = membership(memberships, name) else { continue };
            // A container may see a part of the tree only; its path is then below what is mounted.
            let below = Path::new(path).strip_prefix(mounted).unwrap_or(Path::new(""));
            let root = PathBuf::from(point);
            let ours = root.join(below);
            if !found.iter().any(|other| other.controller == controller) {
                found.push(Hierarchy { controller, root, ours });
            }
        }
    }
    found
}

fn membership<'a>(memberships: &'a str, controller: &str) -> Option<&'a str> {
    memberships.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        let path = parts.next()?;
        controllers.split(',').any(|name| name == controller).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use bowline_model::Timestamp;

    use super::*;

    const MOUNTS: &str = "\
24 1 0:22 / /proc rw - proc proc rw
31 30 0:27 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
32 30 0:28 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
33 30 0:29 /box /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const MEMBERSHIPS: &str = "8:pids:/\n4:memory:/system/agent\n0::/box/agent\n";

    #[test]
    fn both_worlds_are_found_where_they_are_mounted() {
        let found: Vec<_> = hierarchies(MOUNTS, MEMBERSHIPS)
            .into_iter()
            .map(|found| (found.controller, found.ours.display().to_string()))
            .collect();
        assert_eq!(
            found,
            [
                (Controller::Memory, "/sys/fs/cgroup/memory/system/agent".to_owned()),
                (Controller::Pids, "/sys/fs/cgroup/pids/".to_owned()),
                (Controller::Unified, "/sys/fs/cgroup/unified/agent".to_owned()),
            ]
        );
        assert_eq!(hierarchies("", ""), []);
        assert_eq!(hierarchies("garbage - \n - - -", "x"), []);
    }

    #[test]
    fn limits_without_a_place_to_set_them_are_named() {
        let room = tempfile::tempdir().unwrap();
        let hierarchy = |controller, name: &str| Hierarchy {
            controller,
            root: room.path().to_owned(),
            ours: room.path().join(name),
        };
        fs::create_dir(room.path().join("pids")).unwrap();
        let run = RunId::mint(Timestamp::from_millis(1), [1; 10]);
        let limits = Limits { pids_max: Some(5), memory_max_bytes: Some(1 << 20), ..Limits::default() };
        let hierarchies = [hierarchy(Controller::Pids, "pids"), hierarchy(Controller::Memory, "a file/memory")];
        fs::write(room.path().join("a file"), "").unwrap();
        let mut groups = Cgroups::plan_in(&hierarchies, run, &limits, None);
        assert!(!room.path().join(format!("pids/bowline-{run}")).exists(), "only planned");
        groups.enter(&limits);
        assert!(room.path().join(format!("pids/bowline-{run}")).is_dir());
        assert_eq!(groups.groups.len(), 1);
        // A directory is not a group: the kernel would have put the files there.
        let file = groups.groups[0].path.join("pids.max");
        assert_eq!(groups.limit(&limits, 1), ["pids_max", "memory_max_bytes"]);
        fs::write(&file, "max").unwrap();
        assert_eq!(groups.limit(&limits, 1), ["memory_max_bytes"]);
        assert_eq!(fs::read_to_string(&file).unwrap(), "6");
        assert!(Cgroups::plan_in(&[], run, &limits, None).groups.is_empty());
    }

    /// A tree of groups that are plain directories: what is written is seen, and means nothing.
    fn tree(root: &Path, controller: Controller) -> Hierarchy {
        let ours = root.join(format!("{controller:?}"));
        fs::create_dir(&ours).unwrap();
        Hierarchy { controller, root: root.to_owned(), ours }
    }

    fn run() -> RunId {
        RunId::mint(Timestamp::from_millis(1), [1; 10])
    }

    fn written(path: &Path) -> Option<String> {
        fs::read_to_string(path).ok()
    }

    #[test]
    fn a_keeper_kills_its_group_only_after_it_has_left_it() {
        let room = tempfile::tempdir().unwrap();
        let tree = tree(room.path(), Controller::Unified);
        let (home, me) = (tree.ours.clone(), std::process::id().to_string());
        let mut groups = Cgroups::plan_in(&[tree], run(), &Limits::default(), None);
        groups.enter(&Limits::default());
        let group = groups.groups[0].path.clone();
        assert_eq!(written(&group.join("cgroup.procs")), Some(me.clone()));
        assert!(!groups.kill(), "the keeper would be killed as well");
        assert!(!group.join("cgroup.kill").exists());
        groups.leave();
        assert_eq!(written(&home.join("cgroup.procs")), Some(me));
        assert!(groups.kill());
        assert_eq!(written(&group.join("cgroup.kill")).as_deref(), Some("1"));
    }

    #[test]
    fn a_keeper_that_cannot_leave_its_group_does_not_kill_it() {
        let room = tempfile::tempdir().unwrap();
        let tree = tree(room.path(), Controller::Unified);
        let home = tree.ours.clone();
        let mut groups = Cgroups::plan_in(&[tree], run(), &Limits::default(), None);
        groups.enter(&Limits::default());
        fs::create_dir(home.join("cgroup.procs")).unwrap();
        groups.leave();
        assert!(!groups.kill());
    }

    #[test]
    fn processes_of_version_1_are_frozen_without_the_keeper() {
        let room = tempfile::tempdir().unwrap();
        let trees = [tree(room.path(), Controller::Freezer), tree(room.path(), Controller::Pids)];
        let limits = Limits { pids_max: Some(5), ..Limits::default() };
        let mut groups = Cgroups::plan_in(&trees, run(), &limits, None);
        assert_eq!(groups.groups.len(), 2);
        groups.enter(&limits);
        let state = |group: &Group| written(&group.path.join("freezer.state"));
        groups.freeze(true);
        assert_eq!(state(&groups.groups[0]), None, "the keeper would be frozen as well");
        groups.leave();
        for (frozen, word) in [(true, "FROZEN"), (false, "THAWED")] {
            groups.freeze(frozen);
            assert_eq!(state(&groups.groups[0]).as_deref(), Some(word));
        }
        assert_eq!(state(&groups.groups[1]), None, "only the freezer freezes");
        assert!(!groups.kill(), "version 1 cannot");
    }

    #[test]
    fn members_of_a_group_are_all_but_the_keeper() {
        let room = tempfile::tempdir().unwrap();
        let tree = tree(room.path(), Controller::Unified);
        let mut groups = Cgroups::plan_in(&[tree], run(), &Limits::default(), None);
        groups.enter(&Limits::default());
        let group = &groups.groups[0].path;
        fs::write(group.join("cgroup.procs"), format!("7\n{}\n8\n", std::process::id())).unwrap();
        assert_eq!(groups.members(), [7, 8]);
        fs::write(group.join("memory.events"), "low 0\noom_kill 3\n").unwrap();
        assert_eq!(groups.memory_kills(), 3);
        fs::write(group.join("memory.events"), "low 0\n").unwrap();
        assert_eq!(groups.memory_kills(), 0);
        fs::write(group.join("memory.oom_control"), "under_oom 0\noom_kill 2\n").unwrap();
        assert_eq!(groups.memory_kills(), 2, "version 1 says it elsewhere");
    }

    fn every_limit() -> Limits {
        Limits { pids_max: Some(5), memory_max_bytes: Some(1 << 20), cpu_max_percent: Some(50), ..Limits::default() }
    }

    #[test]
    fn version_2_has_the_limits_in_one_group() {
        let room = tempfile::tempdir().unwrap();
        let limits = every_limit();
        let mut groups = Cgroups::plan_in(&[tree(room.path(), Controller::Unified)], run(), &limits, None);
        groups.enter(&limits);
        assert_eq!(groups.limit(&limits, 1), ["pids_max", "memory_max_bytes", "cpu_max_percent"]);
        let files = ["pids.max", "memory.max", "cpu.max"].map(|name| groups.groups[0].path.join(name));
        files.iter().for_each(|file| fs::write(file, "max").unwrap());
        assert_eq!(groups.limit(&limits, 1), [""; 0]);
        assert_eq!(files.map(|file| written(&file).unwrap()), ["6", "1048576", "50000 100000"]);
    }

    #[test]
    fn version_1_has_each_limit_in_a_group_of_its_own() {
        let room = tempfile::tempdir().unwrap();
        let limits = every_limit();
        let trees = [Controller::Pids, Controller::Memory, Controller::Cpu].map(|sort| tree(room.path(), sort));
        let mut groups = Cgroups::plan_in(&trees, run(), &limits, None);
        groups.enter(&limits);
        let paths: Vec<PathBuf> = groups.groups.iter().map(|group| group.path.clone()).collect();
        let files = [
            paths[0].join("pids.max"),
            paths[1].join("memory.limit_in_bytes"),
            paths[2].join("cpu.cfs_period_us"),
            paths[2].join("cpu.cfs_quota_us"),
        ];
        files[..3].iter().for_each(|file| fs::write(file, "-1").unwrap());
        assert_eq!(groups.limit(&limits, 0), ["cpu_max_percent"], "a period is nothing without a quota");
        fs::write(&files[3], "-1").unwrap();
        assert_eq!(groups.limit(&limits, 0), [""; 0]);
        assert_eq!(files.map(|file| written(&file).unwrap()), ["5", "1048576", "100000", "50000"]);
    }

    #[test]
    fn controllers_are_asked_for_where_a_limit_needs_them() {
        let asked = |sort: Controller, limits: &Limits| {
            let room = tempfile::tempdir().unwrap();
            let tree = tree(room.path(), sort);
            let file = tree.ours.join("cgroup.subtree_control");
            Cgroups::plan_in(&[tree], run(), limits, None).enter(limits);
            written(&file)
        };
        let memory = Limits { memory_max_bytes: Some(1 << 20), ..Limits::default() };
        assert_eq!(asked(Controller::Unified, &memory).as_deref(), Some("+memory"));
        assert_eq!(asked(Controller::Unified, &Limits::default()), None);
        assert_eq!(asked(Controller::Memory, &memory), None, "version 1 has a tree for it");
    }

    #[test]
    fn a_group_is_planned_in_each_tree_that_is_of_use() {
        use Controller::{Cpu, Freezer, Memory, Pids, Unified};
        let room = tempfile::tempdir().unwrap();
        let trees = [Unified, Freezer, Pids, Memory, Cpu].map(|sort| tree(room.path(), sort));
        let planned = |trees: &[Hierarchy], limits: &Limits| {
            let groups = Cgroups::plan_in(trees, run(), limits, None).groups;
            groups.into_iter().map(|group| group.controller).collect::<Vec<_>>()
        };
        let none = Limits::default();
        let all = Limits { pids_max: Some(5), memory_max_bytes: Some(1 << 20), cpu_max_percent: Some(50), ..none };
        assert_eq!(planned(&trees, &none), [Unified]);
        assert_eq!(planned(&trees, &all), [Unified, Pids, Memory, Cpu]);
        assert_eq!(planned(&trees[1..], &none), [Freezer], "where nothing else freezes");
        let within = Cgroups::plan_in(&trees[..1], run(), &none, Some(Path::new("/tests")));
        assert_eq!(within.groups[0].path, room.path().join(format!("tests/bowline-{}", run())));
    }

    #[test]
    fn controllers_may_share_a_tree_and_each_is_found_once() {
        let mounts = "\
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
33 30 0:28 / /mnt/freezer rw - cgroup cgroup rw,freezer
34 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
";
        let found: Vec<_> = hierarchies(mounts, "2:cpu,cpuacct:/agent\n3:freezer:/\n")
            .into_iter()
            .map(|found| (found.controller, found.ours.display().to_string()))
            .collect();
        let cpu = (Controller::Cpu, "/sys/fs/cgroup/cpu,cpuacct/agent".to_owned());
        assert_eq!(found, [cpu, (Controller::Freezer, "/sys/fs/cgroup/freezer/".to_owned())]);
    }

    #[test]
    fn groups_with_nobody_in_them_are_removed() {
        let room = tempfile::tempdir().unwrap();
        let trees = [Controller::Unified, Controller::Pids].map(|sort| tree(room.path(), sort));
        let limits = Limits { pids_max: Some(5), ..Limits::default() };
        let mut groups = Cgroups::plan_in(&trees, run(), &limits, None);
        groups.enter(&limits);
        let paths: Vec<PathBuf> = groups.groups.iter().map(|group| group.path.clone()).collect();
        // A real group has files that nobody needs to remove. Here a file stands for somebody who is still in it.
        fs::remove_file(paths[1].join("cgroup.procs")).unwrap();
        groups.remove();
        assert!(paths[0].exists() && !paths[1].exists());
    }

    #[test]
    fn limits_that_nobody_wants_cannot_fail() {
        assert_eq!(Cgroups::try_out(&Limits::default(), None), Vec::<String>::new());
    }
}
