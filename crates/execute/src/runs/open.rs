//! Opening an agent's directory: what lies there is known afterwards, and nothing was changed but leftovers removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex};

use bowline_model::RunId;
use rustix::fs::{FlockOperation, flock};
use tokio::sync::watch;

use super::begin::sweep;
use super::journal::Journal;
use super::settings::Settings;
use super::standing::Standing;
use super::state::{Entry, Runs, Shared, State, runs_directory};
use super::watcher::Watcher;
use crate::disk;
use crate::log::last_ended;
use crate::place::Place;

/// Directories that are being made, and directories that are being removed. Neither is a run.
pub(super) const NEW: &str = ".new-";
pub(super) const GONE: &str = ".gone-";

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("another agent works in this directory")]
    InUse,
    #[error("the directory cannot be read or written")]
    Disk(#[from] io::Error),
}

impl Runs {
    pub fn open(directory: &Path, settings: Settings) -> Result<Self, OpenError> {
        let runs_dir = runs_directory(directory);
        DirBuilder::new().recursive(true).mode(0o700).create(&runs_dir)?;
        let directory = directory.canonicalize()?;
        if settings.other_users {
            // Names can be passed through by who knows them; nothing can be listed, and no file is open to others.
            for path in [&directory, &runs_dir] {
                fs::set_permissions(path, Permissions::from_mode(0o711))?;
            }
        }
        let lock = disk::private().append(true).create(true).open(directory.join("agent.lock"))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(OpenError::InUse),
            Err(error) => return Err(OpenError::Disk(error.into())),
        }
        let journal = Journal::open(&directory.join("journal.log"), settings.journal_max)?;
        let mut runs = BTreeMap::new();
        for entry in fs::read_dir(&runs_dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(NEW) || name.starts_with(GONE) {
                sweep(&entry.path());
            } else if let Ok(run) = name.parse::<RunId>() {
                let place = Place::new(entry.path());
                // What cannot be read is told by `recover`; its directory keeps the run from being begun again.
                if let Ok(manifest) = place.read_manifest() {
                    runs.insert(run, Entry::new(manifest, first_sight(&place)?));
                }
            }
        }
        let state = State { runs, journal, changed: BTreeSet::new(), abandoned: BTreeSet::new() };
        let shared = Arc::new(Shared {
            directory,
            settings,
            state: Mutex::new(state),
            settling: Mutex::new(()),
            changes: watch::Sender::new(0),
            removed: watch::Sender::new(false),
            _lock: lock,
        });
        let watcher = Watcher::start(shared.clone())?;
        Ok(Self { shared, watcher })
    }
}

/// How a run looks to somebody who has just come. A keeper that is gone is noticed later, by who may do something about it.
fn first_sight(place: &Place) -> io::Result<Standing> {
    let lock = place.try_lock()?;
    match (lock.is_some(), place.is_started()?) {
        (true, false) => Ok(Standing::NeverStarted { why: None }),
        (true, true) => Ok(last_ended(&place.events())?.map_or(Standing::Running, Standing::Ended)),
        (false, _) => Ok(Standing::Running),
    }
}
