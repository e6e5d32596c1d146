//! Giving up a run whose directory was removed under us.
//!
//! Its records are gone, so nobody can say how it ended. What is left of it is ended, and the journal remembers it as
//! interrupted: the server is told, its host becomes free, and it is not executed again.

use std::io;
use std::sync::PoisonError;

use bowline_model::RunId;

use super::memory::Executed;
use super::state::Shared;
use crate::log::EndedAs;
use crate::process::{Cgroups, boot_id, end_orphans};

/// What became of a run that could not be brought to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Abandoned {
    /// Its directory is there: something else is wrong.
    Not,
    Given {
        found: usize,
        left: usize,
    },
    /// The directory of all runs is gone.
    Everything,
}

impl Shared {
    /// Says so if the directory of all runs is gone, when something did not work that needs it.
    pub(super) fn see_if_removed(&self) {
        if matches!(self.runs_directory().try_exists(), Ok(false)) {
            self.removed.send_replace(true);
        }
    }

    pub(super) fn abandon(&self, run: RunId) -> io::Result<Abandoned> {
        // Directories are set aside under this lock, so one that is missing now was not removed by us.
        let _one_at_a_time = self.settling.lock().unwrap_or_else(PoisonError::into_inner);
        if self.place(run).path().try_exists()? {
            return Ok(Abandoned::Not);
        }
        if !self.runs_directory().try_exists()? {
            self.removed.send_replace(true);
            return Ok(Abandoned::Everything);
        }
        let Some(manifest) = self.lock().runs.get(&run).map(|entry| entry.manifest.clone()) else {
            return Ok(Abandoned::Not);
        };
        let (found, left) = end_orphans(run, None, &Cgroups::default(), boot_id());
        let now = (self.settings.clock)();
        let mut state = self.lock();
        state.journal.remember(vec![Executed::new(&manifest, EndedAs::Interrupted, None, now)])?;
        state.runs.remove(&run);
        state.abandoned.insert(run);
        Ok(Abandoned::Given { found, left })
    }
}
