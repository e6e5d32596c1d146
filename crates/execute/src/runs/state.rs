//! What is in memory, and who shares it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_model::RunId;
use tokio::sync::watch;

use super::begin::BeginError;
use super::gate;
use super::journal::Journal;
use super::memory::Executed;
use super::settings::Settings;
use super::standing::{Found, Standing};
use super::watcher::Watcher;
use crate::manifest::Manifest;
use crate::place::Place;

/// All runs of one agent. Dropping it leaves the runs to their keepers.
pub struct Runs {
    pub(super) shared: Arc<Shared>,
    pub(super) watcher: Watcher,
}

pub(super) struct Shared {
    pub directory: PathBuf,
    pub settings: Settings,
    /// Never held while a disk or a process is waited for, but for the journal.
    pub state: Mutex<State>,
    /// Held by the one who looks after a run whose keeper is gone.
    pub settling: Mutex<()>,
    pub changes: watch::Sender<u64>,
    /// The directory of all runs was removed.
    pub removed: watch::Sender<bool>,
    /// One agent for one directory.
    pub _lock: File,
}

pub(super) struct State {
    pub runs: BTreeMap<RunId, Entry>,
    pub journal: Journal,
    pub changed: BTreeSet<RunId>,
    /// Runs whose directory was removed, of which nobody has taken note.
    pub abandoned: BTreeSet<RunId>,
}

pub(super) struct Entry {
    pub manifest: Arc<Manifest>,
    pub standing: Standing,
    /// Up to which record the log was read last, and where in the file it ends.
    pub cursor: (u64, u64),
    /// The highest number that left this process.
    pub shown_seq: u64,
}

impl State {
    /// Whether a run may begin now.
    pub fn admit(&self, manifest: &Manifest) -> Result<(), BeginError> {
        let here = self.runs.values().map(|entry| (&*entry.manifest, &entry.standing));
        gate::admit(manifest, here, self.journal.memory())
    }
}

impl Entry {
    pub fn new(manifest: Manifest, standing: Standing) -> Self {
        Self { manifest: Arc::new(manifest), standing, cursor: (0, 0), shown_seq: 0 }
    }
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn runs_directory(&self) -> PathBuf {
        runs_directory(&self.directory)
    }

    pub fn place(&self, run: RunId) -> Place {
        Place::new(self.runs_directory().join(run.to_string()))
    }

    /// Says that there is something to look at.
    pub fn tell(&self, run: RunId) {
        self.lock().changed.insert(run);
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub fn set_standing(&self, run: RunId, standing: &Standing) {
        if let Some(entry) = self.lock().runs.get_mut(&run) {
            entry.standing = standing.clone();
        }
    }
}

pub(super) fn runs_directory(directory: &Path) -> PathBuf {
    directory.join("runs")
}

impl Runs {
    /// A wake-up: it changes whenever some run has something new. It says "look"; [`Self::take_changed`] says where.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// The runs that have had something new since this was asked last.
    pub fn take_changed(&self) -> BTreeSet<RunId> {
        std::mem::take(&mut self.shared.lock().changed)
    }

    /// Turns true when the directory of all runs is not there any more: nothing can be begun or brought to an end then.
    pub fn removed(&self) -> watch::Receiver<bool> {
        self.shared.removed.subscribe()
    }

    /// Whether this run was given up because its directory was removed. Said once.
    pub fn take_abandoned(&self, run: RunId) -> bool {
        self.shared.lock().abandoned.remove(&run)
    }

    /// Runs that were executed and forgotten: after the newest `skip`, up to `max`, the newest first.
    pub fn executed(&self, skip: usize, max: usize) -> Vec<Executed> {
        self.shared.lock().journal.memory().runs().iter().rev().skip(skip).take(max).cloned().collect()
    }

    /// Every run that has a directory here.
    pub fn list(&self) -> Vec<Found> {
        let state = self.shared.lock();
        let found = |(run, entry): (&RunId, &Entry)| Found {
            run: *run,
            manifest: entry.manifest.clone(),
            standing: entry.standing.clone(),
        };
        state.runs.iter().map(found).collect()
    }

    pub fn find(&self, run: RunId) -> Option<Found> {
        let state = self.shared.lock();
        let entry = state.runs.get(&run)?;
        Some(Found { run, manifest: entry.manifest.clone(), standing: entry.standing.clone() })
    }
}
