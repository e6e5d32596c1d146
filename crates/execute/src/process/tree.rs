//! A command and everything it started: found completely, asked to end, and ended.
//!
//! A keeper adopts whatever its command leaves behind, `setsid` or not, so the tree of a living keeper is simply what
//! descends from it. When the keeper is gone that no longer holds, and only what can be proved to be ours is touched.

use std::collections::HashSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use bowline_model::RunId;
use rustix::process::{Signal, WaitOptions, wait};

use super::cgroup::Cgroups;
use super::identity::{Identity, boot_id};
use super::table::{self, Process};

/// The variable every command finds, and hands down to what it starts.
pub(crate) const RUN_VARIABLE: &str = "BOWLINE_RUN_ID";

/// How long killed processes may take to go. Those that wait for a broken disk never do.
const KILL_PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What descends from this process, or is in the run's groups.
pub(crate) struct Tree<'a> {
    pub cgroups: &'a Cgroups,
}

impl Tree<'_> {
    pub(crate) fn members(&self) -> Vec<Identity> {
        let all = table::all();
        let mut pids = table::descendants(&all, &HashSet::from([std::process::id()]));
        pids.extend(self.cgroups.members());
        named(&all, &pids)
    }

    /// Asks everybody to end. Who was stopped is woken, to hear it.
    pub(crate) fn ask(&self) {
        for member in self.members() {
            member.signal(Signal::TERM);
            member.signal(Signal::CONT);
        }
    }

    /// Ends everybody. Returns how many did not go.
    pub(crate) fn kill(&self, mut reap: impl FnMut()) -> usize {
        kill_all(self.cgroups, || self.members(), &mut reap)
    }
}

/// Ends what is left of a run whose keeper is gone, if it is provably the run's: in its group, its recorded process, or
/// started with its variable, and whatever descends from those. Returns how many were found and how many did not go.
pub(crate) fn end_orphans(run: RunId, child: Option<&Identity>, cgroups: &Cgroups, boot: &str) -> (usize, usize) {
    if boot != boot_id() {
        return (0, 0);
    }
    let variable = format!("{RUN_VARIABLE}={run}");
    let me = std::process::id();
    let members = || {
        let all = table::all();
        let marked = all.iter().filter(|process| table::has_variable(process.pid, &variable));
        let mut roots: HashSet<u32> = marked.map(|process| process.pid).collect();
        roots.extend(cgroups.members());
        roots.extend(child.filter(|child| child.is_alive()).map(|child| child.pid));
        // An agent that itself runs under a run is not its orphan.
        roots.remove(&me);
        roots.extend(table::descendants(&all, &roots));
        roots.remove(&me);
        named(&all, &roots)
    };
    let found = members().len();
    let left = if found > 0 { kill_all(cgroups, members, &mut || {}) } else { 0 };
    cgroups.remove();
    (found, left)
}

fn named(all: &[Process], pids: &HashSet<u32>) -> Vec<Identity> {
    let living = all.iter().filter(|process| pids.contains(&process.pid) && !process.is_dead());
    let name = |process: &Process| Identity {
        boot_id: boot_id().to_owned(),
        pid: process.pid,
        start_time: process.start_time,
    };
    living.map(name).collect()
}

/// First nobody runs any more, so that nobody forks; then everybody is killed; and again, until nobody is left.
fn kill_all(cgroups: &Cgroups, members: impl Fn() -> Vec<Identity>, reap: &mut dyn FnMut()) -> usize {
    let deadline = Instant::now() + KILL_PATIENCE;
    loop {
        if !cgroups.kill() {
            cgroups.freeze(true);
            stop_all(&members);
        }
        for member in members() {
            member.signal(Signal::KILL);
        }
        cgroups.freeze(false);
        sleep(LOOK_AGAIN);
        let left = members().len();
        // What is dead by now can be taken note of.
        reap();
        if left == 0 || Instant::now() >= deadline {
            return left;
        }
    }
}

fn stop_all(members: &impl Fn() -> Vec<Identity>) {
    let mut stopped: HashSet<(u32, u64)> = HashSet::new();
    for _ in 0..20 {
        let mut news = false;
        for member in members() {
            if stopped.insert((member.pid, member.start_time)) {
                news = true;
                member.signal(Signal::STOP);
            }
        }
        if !news {
            return;
        }
    }
}

/// Takes note of every child that ended, own and adopted, and tells how each did.
pub(crate) fn reap(mut ended: impl FnMut(u32, Exit)) {
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if let Ok(pid) = u32::try_from(pid.as_raw_nonzero().get()) {
            ended(pid, Exit { code: status.exit_status(), signal: status.terminating_signal() });
        }
    }
}

/// How a process ended: with a code or by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}
