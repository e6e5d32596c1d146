//! A directory for one server or process under test, which goes when its owner goes, even if the owner is killed.
//!
//! An owner that ends, by a panic too, removes its room itself. One that is killed cannot; so whoever takes the next
//! room first clears those nobody holds any more, along with processes that still work there.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use tempfile::TempDir;

use crate::signal::{Signal, send};
use crate::{proc_table, workshop};

const PREFIX: &str = "room-";
/// Guards the moment between the creation of a room and the claim that says it is in use.
const SWEEP_LOCK: &str = "sweep.lock";
/// How long a server may take to leave a room before it is thrown out.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(6);

pub(crate) struct Room {
    directory: TempDir,
    /// Locked for as long as we live: it keeps the sweepers of other tests out.
    _claim: File,
}

impl Room {
    /// `name` is for people who look into the temporary directory.
    pub fn take(name: &str) -> anyhow::Result<Self> {
        let _sweeping = workshop::lock(SWEEP_LOCK)?;
        abandoned().iter().for_each(|room| clear(room));
        let directory = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{name}-"))
            .tempdir_in(workshop::directory())
            .context("cannot create a directory")?;
        let claim = File::create(directory.path().join("claim")).context("cannot claim a directory")?;
        claim.lock().context("cannot claim a directory")?;
        Ok(Self { directory, _claim: claim })
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// What to put into the environment of processes that belong to a room but do not work in it, for them to be found when
/// the room is cleared.
pub(crate) fn mark(room: &Path) -> String {
    format!("BOWLINE_TESTKIT_ROOM={}", room.display())
}

/// Rooms whose owner is gone.
fn abandoned() -> Vec<PathBuf> {
    let entries = fs::read_dir(workshop::directory()).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
        .map(|entry| entry.path())
        // Without a claim its owner was killed before it could make one; see the sweep lock.
        .filter(|room| File::open(room.join("claim")).map_or(true, |claim| claim.try_lock().is_ok()))
        .collect()
}

/// What still works in a room nobody holds is a server that was frozen when its test was killed, and never heard that
/// it should quit. It is woken to do so, as only it can give back its shared memory.
fn clear(room: &Path) {
    let deadline = Instant::now() + LEAVE_TIMEOUT;
    let mut words = [Signal::Quit, Signal::Cont].as_slice();
    loop {
        let mut inside = proc_table::working_below(room);
        inside.extend(proc_table::marked(&mark(room)));
        for pid in &inside {
            words.iter().for_each(|word| drop(send(*pid, *word)));
        }
        if inside.is_empty() || words == [Signal::Kill] {
            break;
        }
        words = if Instant::now() < deadline { &[] } else { &[Signal::Kill] };
        std::thread::sleep(Duration::from_millis(5));
    }
    // What cannot be removed now is found again by the next one.
    let _ = fs::remove_dir_all(room);
}
