//! What the kernel says about processes: who is whose child, who is stopped, who works where, who carries a mark.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::signal::{self, Signal};

/// The children of `parent` as of now. Those it forks meanwhile are missed, so stop it first.
pub(crate) fn children_of(parent: u32) -> Vec<u32> {
    all().filter(|pid| stat(*pid).is_some_and(|(_, ppid)| ppid == parent)).collect()
}

/// True once a SIGSTOP has taken effect.
fn is_stopped(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state == 'T')
}

/// Processes whose current directory is `directory` or below it.
pub(crate) fn working_below(directory: &Path) -> Vec<u32> {
    let below = |pid: &u32| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(directory));
    all().filter(below).collect()
}

/// Processes that were started with `mark` (`NAME=value`) in their environment, and still run.
pub(crate) fn marked(mark: &str) -> Vec<u32> {
    let carries = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
    };
    all().filter(carries).collect()
}

/// Whether the program's name begins with `name`, as far as the kernel keeps it.
pub(crate) fn is_called(pid: u32, name: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|found| found.starts_with(name))
}

/// Stops one process and waits until it stands still.
pub(crate) fn halt(pid: u32) -> std::io::Result<()> {
    signal::send(pid, Signal::Stop)?;
    let deadline = Instant::now() + Duration::from_secs(5);
    while !is_stopped(pid) && is_there(pid) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// False for the dead, also while nobody has reaped them.
fn is_there(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z')
}

fn all() -> impl Iterator<Item = u32> {
    std::fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// State letter and parent. The name before them may contain anything, also spaces and brackets.
fn stat(pid: u32) -> Option<(char, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
