//! What the kernel says about processes: who is whose child, who is stopped, who works where.

use std::path::Path;

/// The children of `parent` as of now. Those it forks meanwhile are missed, so stop it first.
pub(crate) fn children_of(parent: u32) -> Vec<u32> {
    all().filter(|pid| stat(*pid).is_some_and(|(_, ppid)| ppid == parent)).collect()
}

/// True once a SIGSTOP has taken effect.
pub(crate) fn is_stopped(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state == 'T')
}

/// Processes whose current directory is `directory` or below it.
pub(crate) fn working_below(directory: &Path) -> Vec<u32> {
    let below = |pid: &u32| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(directory));
    all().filter(below).collect()
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
