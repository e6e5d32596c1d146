//! The one writer of an `events.log`.
//!
//! Enters: what happened. Leaves: numbered records, on disk after [`EventLog::commit`] and not before.
//!
//! A failed sync is final for a descriptor: the kernel may have dropped the pages and report success the next time. So
//! the records are then written to a new file, which replaces the old one.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::happening::{Ended, Happening, Record};
use super::line;
use super::scan::{Summary, scan};
use crate::Clock;
use crate::disk::{self, Sync};

pub(crate) struct EventLog {
    path: PathBuf,
    file: File,
    clock: Clock,
    sync: Sync,
    /// How much of the file is known to be on disk.
    good_bytes: u64,
    next_seq: u64,
    /// Sealed lines that are not on disk yet.
    pending: Vec<u8>,
    /// A sync failed: nothing may be appended to this file any more.
    suspect: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum CommitError {
    #[error("the disk is full")]
    Full,
    #[error("the disk does not take the event log")]
    Disk(#[source] io::Error),
}

impl EventLog {
    /// Opens or makes a log, mends it, and goes on above everything that was ever written to it or sent from it:
    /// `held_seq` is the highest number somebody else is known to hold.
    pub(crate) fn open(path: &Path, held_seq: u64, clock: Clock) -> io::Result<(Self, Summary)> {
        Self::open_with(path, held_seq, clock, disk::SYNC)
    }

    fn open_with(path: &Path, held_seq: u64, clock: Clock, sync: Sync) -> io::Result<(Self, Summary)> {
        let mut file = disk::private().read(true).append(true).create(true).open(path)?;
        let found = scan(BufReader::new(&file))?;
        if found.bad_bytes > 0 && !found.is_damaged() {
            file.set_len(found.good_bytes)?;
        }
        let next_seq = found.highest_seq.max(held_seq) + 1;
        let mut summary = found.clone();
        if found.is_damaged() {
            file = Self::set_aside(path, &found, next_seq, &clock, sync)?;
            summary = scan(BufReader::new(&file))?;
        }
        sync(&file)?;
        disk::sync_directory(directory_of(path))?;
        let log = Self {
            path: path.to_owned(),
            file,
            clock,
            sync,
            good_bytes: summary.good_bytes,
            next_seq: next_seq.max(summary.last_seq + 1),
            pending: Vec::new(),
            suspect: false,
        };
        Ok((log, summary))
    }

    /// Keeps the damaged file under another name, and the good part of it under its own, with a word about the damage.
    /// An end that was recorded behind the damage is told again: the disk lost the way to it, not the fact.
    fn set_aside(path: &Path, found: &Summary, next_seq: u64, clock: &Clock, sync: Sync) -> io::Result<File> {
        let aside = free_name(path)?;
        let file = aside.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let message = format!(
            "{} bytes behind record {} are damaged or cannot be reached; {} whole records among them are not in the log any more",
            found.bad_bytes, found.last_seq, found.records_behind
        );
        let damaged = Happening::SpoolDamaged { file, kept_seq: found.last_seq, message };
        let mut tail = sealed(next_seq, clock, damaged);
        if let Some(ended) = &found.ended_behind {
            let last_seq = next_seq + 1;
            tail.push_str(&sealed(last_seq, clock, Happening::Ended(Ended { last_seq, ..ended.clone() })));
        }
        let fresh = write_beside(path, found.good_bytes, tail.as_bytes(), sync)?;
        fs::hard_link(path, &aside)?;
        fs::rename(new_name(path), path)?;
        Ok(fresh)
    }

    /// Adds a record, in memory. Its number is known at once, and is final.
    pub(crate) fn append(&mut self, happening: Happening) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.pending.extend_from_slice(sealed(seq, &self.clock, happening).as_bytes());
        seq
    }

    /// Adds the end of the run, which names its own number.
    pub(crate) fn append_end(&mut self, ended: Ended) -> Ended {
        let ended = Ended { last_seq: self.next_seq, ..ended };
        self.append(Happening::Ended(ended.clone()));
        ended
    }

    /// Brings everything that was added to disk. On a full disk nothing is lost: make room and commit again.
    pub(crate) fn commit(&mut self) -> Result<(), CommitError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        if self.suspect {
            return self.rewrite();
        }
        match self.file.write_all(&self.pending) {
            // A part of the last line may have been written. It must not stand before the next attempt.
            Err(error) if disk::is_full(&error) && self.file.set_len(self.good_bytes).is_ok() => {
                return Err(CommitError::Full);
            }
            Err(_) => return self.rewrite(),
            Ok(()) => {}
        }
        match (self.sync)(&self.file) {
            Ok(()) => {
                self.good_bytes += self.pending.len() as u64;
                self.pending.clear();
                Ok(())
            }
            Err(_) => self.rewrite(),
        }
    }

    /// What was on disk before, read back and checked, and what should have followed it, in a new file.
    fn rewrite(&mut self) -> Result<(), CommitError> {
        self.suspect = true;
        let replaced = self.replace();
        match replaced {
            Ok(file) => {
                self.file = file;
                self.good_bytes += self.pending.len() as u64;
                self.pending.clear();
                self.suspect = false;
                Ok(())
            }
            Err(error) if disk::is_full(&error) => Err(CommitError::Full),
            Err(error) => Err(CommitError::Disk(error)),
        }
    }

    fn replace(&self) -> io::Result<File> {
        let found = scan(BufReader::new(File::open(&self.path)?.take(self.good_bytes)))?;
        if found.good_bytes != self.good_bytes {
            return Err(io::Error::other("records that were on disk cannot be read back"));
        }
        let fresh = write_beside(&self.path, self.good_bytes, &self.pending, self.sync)?;
        fs::rename(new_name(&self.path), &self.path)?;
        disk::sync_directory(directory_of(&self.path))?;
        Ok(fresh)
    }
}

fn sealed(seq: u64, clock: &Clock, happening: Happening) -> String {
    let record = Record { seq, at: clock(), happening };
    line::seal(&serde_json::to_string(&record).expect("a record is plain data with text keys"))
}

/// The first `kept` bytes of a file and `tail`, synced, under the name that [`new_name`] gives.
fn write_beside(path: &Path, kept: u64, tail: &[u8], sync: Sync) -> io::Result<File> {
    let name = new_name(path);
    disk::remove_if_there(&name)?;
    let fresh = disk::private().read(true).append(true).create_new(true).open(&name)?;
    let mut writer = BufWriter::new(&fresh);
    io::copy(&mut File::open(path)?.take(kept), &mut writer)?;
    writer.write_all(tail)?;
    writer.flush()?;
    drop(writer);
    sync(&fresh)?;
    (&fresh).rewind()?;
    Ok(fresh)
}

fn new_name(path: &Path) -> PathBuf {
    path.with_extension("log.new")
}

fn free_name(path: &Path) -> io::Result<PathBuf> {
    for number in 1..1_000 {
        let name = path.with_extension(format!("log.damaged-{number}"));
        if !name.try_exists()? {
            return Ok(name);
        }
    }
    Err(io::Error::other("this log was damaged a thousand times"))
}

fn directory_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use bowline_model::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::log::{EndedAs, Stream, parse};

    const NO_SYNC: Sync = |_| Ok(());

    /// In memory, where the syncs of thousands of cases cost nothing.
    fn room() -> tempfile::TempDir {
        tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
    }

    fn clock() -> Clock {
        Arc::new(|| Timestamp::from_millis(1_767_398_400_000))
    }

    fn output(offset: u64) -> Happening {
        Happening::Output { stream: Stream::Stdout, offset, bytes: 10, sha256: "ab".repeat(32) }
    }

    fn ended() -> Ended {
        Ended {
            outcome: EndedAs::Succeeded,
            exit_code: Some(0),
            signal: None,
            message: Some("ünd \"gut\"\n".into()),
            children: None,
            duration_ms: Some(12),
            stdout_bytes: 30,
            stderr_bytes: 0,
            last_seq: 0,
        }
    }

    fn sample(path: &Path) -> Vec<u8> {
        let (mut log, _) = EventLog::open_with(path, 0, clock(), NO_SYNC).unwrap();
        log.append(Happening::Started {
            pid: 7,
            boot_id: "b".into(),
            start_time: 9,
            unenforced: vec![],
            limits: BTreeMap::new(),
        });
        for n in 0..3 {
            log.append(output(n * 10));
        }
        assert_eq!(log.append_end(ended()).last_seq, 5);
        log.commit().unwrap();
        fs::read(path).unwrap()
    }

    fn records(bytes: &[u8]) -> Vec<Record> {
        let lines: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        lines.iter().map(|line| parse(line.strip_suffix(b"\n").unwrap()).unwrap()).collect()
    }

    /// What must hold after any harm to `whole`: the records that are left are a prefix of the old ones, then a word about
    /// damage if whole records were behind it; and a new record has a number that no record ever had.
    fn check_mended(path: &Path, whole: &[u8], held_seq: u64) -> (usize, bool) {
        let before = records(whole);
        let (mut log, _) = EventLog::open_with(path, held_seq, clock(), NO_SYNC).unwrap();
        let seq = log.append(output(99));
        log.commit().unwrap();
        let after = records(&fs::read(path).unwrap());
        let kept = after.iter().zip(&before).take_while(|(a, b)| a == b).count();
        let added = &after[kept..];
        let damaged = matches!(added[0].happening, Happening::SpoolDamaged { .. });
        match added {
            [new] if !damaged => assert_eq!(new.happening, output(99)),
            [word, .., new] => {
                assert!(damaged, "{word:?}");
                assert_eq!(new.happening, output(99));
            }
            _ => panic!("{added:?}"),
        }
        if damaged {
            // Nothing is silent and nothing is gone: the old file is there, and numbers go on behind it.
            assert!(path.with_extension("log.damaged-1").exists());
            assert!(added[0].seq > before.last().unwrap().seq);
        }
        assert_eq!(after.last().unwrap().seq, seq);
        assert!(seq > held_seq);
        assert!(after.windows(2).all(|pair| pair[0].seq < pair[1].seq));
        (kept, damaged)
    }

    #[test]
    fn a_log_cut_at_any_byte_keeps_its_whole_records_and_goes_on() {
        let room = room();
        let path = room.path().join("events.log");
        let whole = sample(&path);
        for cut in 0..=whole.len() {
            for held_seq in [0, 3, 17] {
                fs::write(&path, &whole[..cut]).unwrap();
                let (kept, damaged) = check_mended(&path, &whole, held_seq);
                assert!(!damaged);
                assert_eq!(kept, whole[..cut].iter().filter(|byte| **byte == b'\n').count(), "cut at {cut}");
            }
        }
    }

    #[test]
    fn one_flipped_bit_anywhere_is_seen() {
        let room = room();
        let path = room.path().join("events.log");
        let whole = sample(&path);
        let last_line = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << bit;
                fs::write(&path, &flipped).unwrap();
                let (kept, damaged) = check_mended(&path, &whole, 0);
                assert_eq!(kept, whole[..at].iter().filter(|byte| **byte == b'\n').count(), "bit {bit} of {at}");
                // A lost break before the last record makes one broken line of two: nothing whole is behind it.
                assert_eq!(damaged, at < last_line, "bit {bit} of {at}");
                let _ = fs::remove_file(path.with_extension("log.damaged-1"));
            }
        }
    }

    #[test]
    fn an_end_behind_the_damage_is_told_again() {
        let room = room();
        let path = room.path().join("events.log");
        let mut bytes = sample(&path);
        bytes[300] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let (_, summary) = EventLog::open_with(&path, 0, clock(), NO_SYNC).unwrap();
        assert_eq!(summary.ended, Some(Ended { last_seq: 7, ..ended() }));
        assert_eq!(fs::read(path.with_extension("log.damaged-1")).unwrap(), bytes);
        let (_, again) = EventLog::open_with(&path, 0, clock(), NO_SYNC).unwrap();
        assert_eq!(again, summary);
    }

    #[test]
    fn a_zeroed_last_page_is_a_torn_tail() {
        let room = room();
        let path = room.path().join("events.log");
        let (mut log, _) = EventLog::open_with(&path, 0, clock(), NO_SYNC).unwrap();
        for n in 0..100 {
            log.append(output(n * 10));
        }
        log.commit().unwrap();
        let whole = fs::read(&path).unwrap();
        let mut zeroed = whole.clone();
        let from = whole.len() - 4096;
        zeroed[from..].fill(0);
        fs::write(&path, &zeroed).unwrap();
        let (kept, damaged) = check_mended(&path, &whole, 100);
        assert!(!damaged);
        assert_eq!(kept, whole[..from].iter().filter(|byte| **byte == b'\n').count());
        assert!(kept > 50);
    }

    #[test]
    fn kinds_of_a_newer_version_are_passed_on() {
        let room = room();
        let path = room.path().join("events.log");
        let line = line::seal(r#"{"seq":1,"at":"2026-01-03T00:00:00Z","kind":"dreamt","of":["sheep"]}"#);
        fs::write(&path, &line).unwrap();
        let record = parse(line.trim_end().as_bytes()).unwrap();
        let Happening::Other(members) = &record.happening else { panic!("{record:?}") };
        assert_eq!(members["of"][0], "sheep");
        assert_eq!(serde_json::to_value(&record).unwrap()["kind"], "dreamt");
        assert_eq!(EventLog::open_with(&path, 0, clock(), NO_SYNC).unwrap().1.last_seq, 1);
    }

    thread_local!(static SYNCS_LEFT: Cell<i32> = const { Cell::new(0) });

    /// Works a given number of times, fails once, and works again: as kernels do.
    const FAILS_ONCE: Sync = |_| {
        SYNCS_LEFT.set(SYNCS_LEFT.get() - 1);
        if SYNCS_LEFT.get() == -1 { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
    };
    const FAILS_FROM_THEN_ON: Sync = |_| {
        SYNCS_LEFT.set(SYNCS_LEFT.get() - 1);
        if SYNCS_LEFT.get() < 0 { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
    };

    #[test]
    fn after_a_failed_sync_the_records_are_in_a_new_file() {
        use std::os::unix::fs::MetadataExt;
        let room = room();
        let path = room.path().join("events.log");
        SYNCS_LEFT.set(2);
        let (mut log, _) = EventLog::open_with(&path, 0, clock(), FAILS_ONCE).unwrap();
        log.append(output(0));
        log.commit().unwrap();
        let before = fs::metadata(&path).unwrap().ino();
        log.append(output(10));
        log.commit().unwrap();
        assert_ne!(fs::metadata(&path).unwrap().ino(), before, "the old descriptor was used again");
        log.append(output(20));
        log.commit().unwrap();
        assert_eq!(records(&fs::read(&path).unwrap()).iter().map(|r| r.seq).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn a_disk_that_takes_nothing_any_more_is_an_error() {
        let room = room();
        let path = room.path().join("events.log");
        SYNCS_LEFT.set(1);
        let (mut log, _) = EventLog::open_with(&path, 0, clock(), FAILS_FROM_THEN_ON).unwrap();
        log.append(output(0));
        assert!(matches!(log.commit(), Err(CommitError::Disk(_))));
    }

    proptest! {
        #[test]
        fn a_garbage_tail_never_costs_a_whole_record(garbage in prop::collection::vec(any::<u8>(), 1..600), cut in 0usize..2_000) {
            let room = room();
            let path = room.path().join("events.log");
            let whole = sample(&path);
            let cut = cut.min(whole.len());
            fs::write(&path, [&whole[..cut], garbage.as_slice()].concat()).unwrap();
            let (kept, damaged) = check_mended(&path, &whole, 0);
            prop_assert!(!damaged);
            prop_assert_eq!(kept, whole[..cut].iter().filter(|byte| **byte == b'\n').count());
        }
    }
}
