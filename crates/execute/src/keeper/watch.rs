//! The life of a command: until it ends, must end, or is asked to.
//!
//! Time is monotonic: a clock that is put back neither lengthens nor shortens a life.

use std::cell::Cell;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::log::{ChildProcess, Children, ChildrenBecame};
use crate::manifest::Manifest;
use crate::place::Place;
use crate::process::{Cgroups, Exit, Identity, Tree, reap};

/// How soon a wish to cancel is seen.
const LOOK: Duration = Duration::from_millis(100);
/// The same while the end is awaited, which is rare and short.
const LOOK_ENDING: Duration = Duration::from_millis(10);
/// How long what a command left running may take to end by itself: the other end of a pipe, for instance.
const STRAGGLING: Duration = Duration::from_millis(250);
/// From the request to end to its enforcement, for what a command left running.
const CHILDREN_GRACE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    TimedOut,
    Canceled,
}

pub(super) struct Seen {
    /// How the command itself ended. Absent if it could not be ended.
    pub exit: Option<Exit>,
    /// Why it had to.
    pub ending: Option<Ending>,
    pub ended_after: Duration,
    /// What it left running when it ended by itself.
    pub children: Option<Children>,
    /// How many of its processes are there still.
    pub left: usize,
}

pub(super) fn watch(place: &Place, manifest: &Manifest, child: &Identity, cgroups: &Cgroups, began: Instant) -> Seen {
    let tree = Tree { cgroups };
    let end = began.checked_add(Duration::from_millis(manifest.timeout_ms));
    let grace = Duration::from_millis(manifest.kill_grace_ms);
    let handle = i32::try_from(child.pid).ok().and_then(Pid::from_raw);
    let handle = handle.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let end_of_child = Cell::new(None);
    let take_note = || {
        reap(|pid, exit| {
            if pid == child.pid {
                end_of_child.set(Some((exit, began.elapsed())));
            }
        });
    };
    let mut ending: Option<(Ending, Instant)> = None;
    loop {
        take_note();
        let now = Instant::now();
        match ending {
            None if end_of_child.get().is_some() => break,
            None => {
                let why = match end {
                    Some(end) if now >= end => Some(Ending::TimedOut),
                    _ => place.cancel().exists().then_some(Ending::Canceled),
                };
                if let Some(why) = why {
                    tree.ask();
                    // A grace of centuries is no grace that could be added to a moment.
                    ending = Some((why, now.checked_add(grace).unwrap_or(now)));
                }
            }
            Some(_) if end_of_child.get().is_some() && tree.members().is_empty() => break,
            Some((_, kill_at)) if now >= kill_at => {
                tree.kill(take_note);
                // Between death and the moment it can be waited for there may be a little time. One that cannot be ended
                // is not waited for.
                let patience = Instant::now() + LOOK;
                while end_of_child.get().is_none() && Instant::now() < patience {
                    sleep(LOOK_ENDING);
                    take_note();
                }
                break;
            }
            Some(_) => {}
        }
        match (&handle, ending) {
            (Some(handle), None) => {
                let pause = end.map_or(LOOK, |end| LOOK.min(end.saturating_duration_since(now)));
                let pause = Timespec { tv_sec: 0, tv_nsec: i64::from(pause.subsec_nanos()) };
                let _ = poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&pause));
            }
            _ => sleep(LOOK_ENDING),
        }
    }
    let (exit, ended_after) = end_of_child.get().unzip();
    let children = match ending {
        None => left_behind(&tree, manifest.leave_children, take_note),
        Some(_) => None,
    };
    let left = match (&children, ending) {
        (Some(children), _) => children.remain,
        (None, None) => 0,
        (None, Some(_)) => tree.members().len(),
    };
    let ended_after = ended_after.unwrap_or_else(|| began.elapsed());
    Seen { exit, ending: ending.map(|(why, _)| why), ended_after, children, left }
}

/// Ends what the command left running, unless it is meant to stay. The run is not over before they are gone.
fn left_behind(tree: &Tree<'_>, leave: bool, take_note: impl Fn()) -> Option<Children> {
    let gone_by = |moment: Instant| loop {
        take_note();
        let members = tree.members();
        if members.is_empty() || Instant::now() >= moment {
            return members;
        }
        sleep(LOOK_ENDING);
    };
    let found = gone_by(Instant::now() + STRAGGLING);
    if found.is_empty() {
        return None;
    }
    let name = |member: &Identity| ChildProcess { pid: member.pid, name: member.name() };
    let mut children = Children {
        became: if leave { ChildrenBecame::Left } else { ChildrenBecame::Ended },
        count: found.len(),
        killed: 0,
        remain: found.len(),
        processes: found.iter().take(Children::NAMED_MAX).map(name).collect(),
    };
    if !leave {
        tree.ask();
        children.killed = gone_by(Instant::now() + CHILDREN_GRACE).len();
        children.remain = if children.killed > 0 { tree.kill(&take_note) } else { 0 };
    }
    Some(children)
}
