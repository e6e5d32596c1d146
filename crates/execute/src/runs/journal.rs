//! What was executed here and is not in a directory any more.
//!
//! A server that was restored from an old copy hands out work that has been done. The journal remembers, for the newest
//! runs, and for every host the highest fence it was ever leased under. Lines are sealed and independent of each other: a
//! damaged one costs only itself, and is told in the log.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use bowline_model::HostName;
use serde::{Deserialize, Serialize};

use super::memory::{Executed, Memory};
use crate::disk;
use crate::log::{Lines, open_line, seal_line};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line {
    Run(Executed),
    /// Written when a host's fence is known from no run that is remembered.
    Host {
        host: HostName,
        host_fence: u64,
    },
}

pub(super) struct Journal {
    path: PathBuf,
    file: File,
    max: usize,
    memory: Memory,
    lines: usize,
}

impl Journal {
    pub(super) fn open(path: &Path, max: usize) -> io::Result<Self> {
        let file = disk::private().read(true).append(true).create(true).open(path)?;
        let mut journal = Self { path: path.to_owned(), file, max: max.max(1), memory: Memory::new(max), lines: 0 };
        let mut bad = 0usize;
        let mut lines = Lines::new(BufReader::new(journal.file.try_clone()?));
        while let Some(line) = lines.next()? {
            match line.text.and_then(open_line).and_then(|object| serde_json::from_slice(&object).ok()) {
                Some(line) => journal.learn(line),
                None => bad += 1,
            }
            journal.lines += 1;
        }
        if bad > 0 {
            // One torn line at the end is a crash. Either way the old file stays beside the new one.
            let aside = path.with_extension("log.damaged");
            fs::copy(path, &aside)?;
            tracing::warn!(lines = bad, "the journal has {bad} broken lines; a copy of it is in {}", aside.display());
            journal.rewrite()?;
        }
        disk::sync_directory(path.parent().unwrap_or(Path::new(".")))?;
        Ok(journal)
    }

    /// What it says.
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// All of them are on disk when this returns.
    pub(super) fn remember(&mut self, executed: Vec<Executed>) -> io::Result<()> {
        self.append(executed.into_iter().map(Line::Run).collect())
    }

    /// Remembers a host's fence, if it is news.
    pub(super) fn see_host(&mut self, host: &HostName, host_fence: u64) -> io::Result<()> {
        if host_fence <= self.memory.host_fence(host) {
            return Ok(());
        }
        self.append(vec![Line::Host { host: host.clone(), host_fence }])
    }

    fn append(&mut self, lines: Vec<Line>) -> io::Result<()> {
        let text = lines.iter().map(sealed).collect::<io::Result<String>>()?;
        let before = self.file.metadata()?.len();
        if let Err(error) = self.file.write_all(text.as_bytes()) {
            // Half a line must not stand before the next one.
            self.file.set_len(before)?;
            return Err(error);
        }
        let synced = (disk::SYNC)(&self.file);
        self.lines += lines.len();
        lines.into_iter().for_each(|line| self.learn(line));
        // After a failed sync nobody knows what the file holds: memory does, and writes a new one.
        if synced.is_err() || self.lines > 2 * self.max + self.memory.hosts().len() + 1_000 {
            self.rewrite()?;
        }
        Ok(())
    }

    fn learn(&mut self, line: Line) {
        match line {
            Line::Run(done) => self.memory.learn(done),
            Line::Host { host, host_fence } => self.memory.see_host(&host, host_fence),
        }
    }

    /// Everything that is remembered, in a new file that replaces the old one.
    fn rewrite(&mut self) -> io::Result<()> {
        let new = self.path.with_extension("log.new");
        disk::remove_if_there(&new)?;
        let fresh = disk::private().read(true).append(true).create_new(true).open(&new)?;
        let mut writer = BufWriter::new(&fresh);
        for (host, host_fence) in self.memory.hosts() {
            writer.write_all(sealed(&Line::Host { host: host.clone(), host_fence: *host_fence })?.as_bytes())?;
        }
        for done in self.memory.runs() {
            writer.write_all(sealed(&Line::Run(done.clone()))?.as_bytes())?;
        }
        writer.flush()?;
        drop(writer);
        (disk::SYNC)(&fresh)?;
        fs::rename(&new, &self.path)?;
        disk::sync_directory(self.path.parent().unwrap_or(Path::new(".")))?;
        self.file = fresh;
        self.lines = self.memory.hosts().len() + self.memory.runs().len();
        Ok(())
    }
}

fn sealed(line: &Line) -> io::Result<String> {
    Ok(seal_line(&serde_json::to_string(line)?))
}

#[cfg(test)]
mod tests {
    use bowline_model::{JobId, RunId, Timestamp};

    use super::*;
    use crate::log::EndedAs;
    use crate::manifest::Manifest;
    use crate::manifest::tests::sample;

    fn manifest(job: u8, fence: u32, host_fence: u64) -> Manifest {
        let at = Timestamp::from_millis(1_000);
        let run = RunId::mint(at, [job, fence.to_le_bytes()[0], 0, 0, 0, 0, 0, 0, 0, 0]);
        Manifest { run, job: JobId::mint(at, [job; 10]), fence, host_fence, ..sample() }
    }

    fn remember(journal: &mut Journal, manifest: &Manifest) {
        let done = Executed::new(manifest, EndedAs::Failed, Some(3), Timestamp::from_millis(5));
        journal.remember(vec![done]).unwrap();
    }

    #[test]
    fn what_was_executed_is_known_after_a_restart() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("journal.log");
        let first = manifest(1, 4, 9);
        remember(&mut Journal::open(&path, 10).unwrap(), &first);
        let journal = Journal::open(&path, 10).unwrap();
        let known = |fence| journal.memory().executed(first.job, fence, 0).map(|done| (done.run, done.exit_code));
        assert_eq!(known(4), Some((first.run, Some(3))));
        assert_eq!(known(3), Some((first.run, Some(3))), "an older hand-out is over as well");
        assert_eq!(known(5), None, "a later one is a new attempt");
        assert_eq!(journal.memory().host_fence(&first.host), 9);
    }

    #[test]
    fn an_attempt_is_known_by_its_number_under_whatever_fence_it_comes_again() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("journal.log");
        let second = Manifest { attempt: 2, ..manifest(1, 3, 9) };
        remember(&mut Journal::open(&path, 10).unwrap(), &second);
        let journal = Journal::open(&path, 10).unwrap();
        let known = |fence, attempt| journal.memory().executed(second.job, fence, attempt).is_some();
        assert!(known(7, 2), "a restored server gives it out again under a higher fence");
        assert!(known(7, 1), "and what came before it");
        assert!(!known(7, 3), "the next attempt is a new one");
        assert!(!known(7, 0), "whose number is not known is judged by its fence");
    }

    #[test]
    fn the_newest_are_kept_and_the_fences_of_hosts_for_ever() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("journal.log");
        let mut journal = Journal::open(&path, 10).unwrap();
        remember(&mut journal, &manifest(200, 1, 77));
        for round in 0..30 {
            (0..50).for_each(|job| remember(&mut journal, &manifest(job, round, 1)));
        }
        for journal in [journal, Journal::open(&path, 10).unwrap()] {
            assert_eq!(journal.memory().runs().len(), 10);
            assert!(journal.memory().executed(manifest(49, 29, 1).job, 29, 0).is_some());
            assert!(journal.memory().executed(manifest(39, 29, 1).job, 0, 0).is_none());
            assert!(journal.memory().executed(manifest(200, 1, 1).job, 1, 0).is_none());
            assert_eq!(journal.memory().host_fence(&sample().host), 77);
        }
        assert!(fs::read_to_string(&path).unwrap().lines().count() < 1_100);
    }

    #[test]
    fn a_broken_line_costs_only_itself() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("journal.log");
        let mut journal = Journal::open(&path, 10).unwrap();
        (1..4).for_each(|job| remember(&mut journal, &manifest(job, 1, 1)));
        drop(journal);
        let mut bytes = fs::read(&path).unwrap();
        let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 30;
        bytes[second] ^= 4;
        bytes.extend_from_slice(b"{\"kind\":\"run\",\"job\"");
        fs::write(&path, &bytes).unwrap();
        for _ in 0..2 {
            let journal = Journal::open(&path, 10).unwrap();
            let known: Vec<_> =
                (1..4).map(|job| journal.memory().executed(manifest(job, 1, 1).job, 1, 0).is_some()).collect();
            assert_eq!(known, [true, false, true]);
        }
        assert_eq!(fs::read(path.with_extension("log.damaged")).unwrap(), bytes);
    }
}
