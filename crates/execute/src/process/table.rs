//! What the kernel says about processes at one moment.

use std::collections::{HashMap, HashSet};
use std::fs;

#[derive(Debug, Clone, Copy)]
pub(super) struct Process {
    pub pid: u32,
    pub parent: u32,
    pub start_time: u64,
    state: char,
    threads: u32,
}

impl Process {
    /// Ended, and not yet taken note of by its parent. A process whose first thread has ended looks the same, but lives as
    /// long as it has others.
    pub(super) fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads <= 1
    }
}

pub(super) fn look(pid: u32) -> Option<Process> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may contain anything, also spaces and brackets.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let threads = fields.nth(15)?.parse().ok()?;
    let start_time = fields.nth(1)?.parse().ok()?;
    Some(Process { pid, parent, start_time, state, threads })
}

pub(super) fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| look(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// Those among `all` that descend from `roots`, without the roots.
pub(super) fn descendants(all: &[Process], roots: &HashSet<u32>) -> HashSet<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process.pid);
    }
    let mut found = HashSet::new();
    let mut open: Vec<u32> = roots.iter().copied().collect();
    while let Some(parent) = open.pop() {
        for child in children.get(&parent).into_iter().flatten() {
            if !roots.contains(child) && found.insert(*child) {
                open.push(*child);
            }
        }
    }
    found
}

/// Whether the process was given this variable at its start, as `NAME=value`.
pub(super) fn has_variable(pid: u32, variable: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_that_ended_and_was_not_taken_note_of_is_dead() {
        assert!(!look(std::process::id()).unwrap().is_dead());
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let of_child = || look(pid).unwrap();
        assert!(!of_child().is_dead());
        let mut output = child.stdout.take().unwrap();
        drop(child.stdin.take());
        // Its output is closed when it ends; the kernel needs a moment more to say so.
        std::io::Read::read_to_end(&mut output, &mut Vec::new()).unwrap();
        while of_child().state != 'Z' {
            std::thread::yield_now();
        }
        assert!(of_child().is_dead());
        child.wait().unwrap();
        assert!(look(pid).is_none());
    }

    #[test]
    fn descendants_are_found_through_any_number_of_parents_without_the_roots() {
        let process = |pid, parent| Process { pid, parent, start_time: 1, state: 'S', threads: 1 };
        let all = [process(1, 0), process(2, 1), process(3, 2), process(4, 3), process(5, 2), process(6, 1)];
        let of = |roots: &[u32]| {
            let mut found: Vec<u32> = descendants(&all, &roots.iter().copied().collect()).into_iter().collect();
            found.sort_unstable();
            found
        };
        assert_eq!(of(&[2]), [3, 4, 5]);
        assert_eq!(of(&[2, 3]), [4, 5], "a root below another one is a root");
        assert_eq!((of(&[6]), of(&[9]), of(&[])), (vec![], vec![], vec![]));
    }

    #[test]
    fn a_process_is_known_by_a_variable_it_was_started_with() {
        let mut cat = Command::new("cat");
        let mut child = cat.env("MARK", "run-1").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // The kernel knows its environment when the program runs, a moment after it was started.
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"x").unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let has = |variable: &str| has_variable(child.id(), variable);
        let found = [has("MARK=run-1"), has("MARK=run-10"), has("MARK=run"), has("ARK=run-1")];
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, [true, false, false, false]);
    }

    #[test]
    fn a_process_whose_first_thread_ended_lives_as_long_as_it_has_others() {
        let process = Process { pid: 7, parent: 1, start_time: 1, state: 'Z', threads: 2 };
        assert!(!process.is_dead());
        assert!(Process { threads: 1, ..process }.is_dead());
        assert!(!Process { state: 'S', threads: 1, ..process }.is_dead());
    }
}
