//! After the agent was away: what became of its runs.

use std::fs;
use std::io;
use std::path::PathBuf;

use bowline_model::RunId;

use super::settle::SettleError;
use super::standing::{Found, Standing};
use super::state::Runs;
use crate::place::Place;

/// A run directory of which nobody can say what it is. It is left alone; its run is never begun here.
#[derive(Debug)]
pub struct Unreadable {
    pub path: PathBuf,
    pub error: io::Error,
}

#[derive(Debug)]
pub struct Recovered {
    pub found: Vec<Found>,
    pub unreadable: Vec<Unreadable>,
    /// Runs whose log could not be brought to an end, because of the disk. They count as running; recover again.
    pub unsettled: Vec<(RunId, SettleError)>,
}

impl Runs {
    /// Looks at every run directory. Runs with a living keeper are watched from now on; runs that lost theirs are ended
    /// as interrupted. `held_seq` tells the highest number the ledger holds of a run, so that none is used twice.
    pub fn recover(&self, held_seq: impl Fn(RunId) -> u64) -> io::Result<Recovered> {
        let mut unsettled = Vec::new();
        for Found { run, .. } in self.list() {
            match self.shared.settle(run, held_seq(run)) {
                Ok(Standing::Running) => self.watcher.watch(run),
                Ok(_) => {}
                Err(error) => unsettled.push((run, error)),
            }
            self.shared.tell(run);
        }
        Ok(Recovered { found: self.list(), unreadable: self.unreadable()?, unsettled })
    }

    fn unreadable(&self) -> io::Result<Vec<Unreadable>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.shared.runs_directory())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.parse::<RunId>().is_ok()
                && let Err(error) = Place::new(&path).read_manifest()
            {
                found.push(Unreadable { path, error });
            }
        }
        Ok(found)
    }
}
