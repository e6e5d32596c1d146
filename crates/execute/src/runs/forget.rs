//! Freeing what is no longer needed here, and remembering that it was.

use std::io;
use std::sync::PoisonError;

use bowline_model::RunId;

use super::begin::sweep;
use super::memory::Executed;
use super::standing::{Found, Standing};
use super::state::Runs;
use crate::disk;
use crate::log::Stream;
use crate::place::Marker;

/// What the ledger says it holds of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confirmed {
    /// It holds all records from 1 to this one.
    pub last_seq: u64,
    /// It holds so much of the output.
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ForgetError {
    #[error("there is no run {0} here")]
    Unknown(RunId),
    #[error("run {0} has not ended")]
    NotEnded(RunId),
    #[error("run {0} has been started, and cannot be given back")]
    Started(RunId),
    #[error("not everything of run {run} is held elsewhere: it has {needed:?}")]
    NotConfirmed { run: RunId, needed: Confirmed },
    #[error("the directory or the journal could not be changed")]
    Disk(#[from] io::Error),
}

impl Runs {
    /// Removes a run that has ended, once the ledger holds all of it. That it was executed is remembered.
    pub fn forget(&self, run: RunId, held: Confirmed) -> Result<(), ForgetError> {
        self.forget_all([(run, held)]).pop().map_or(Err(ForgetError::Unknown(run)), |(_, answer)| answer)
    }

    /// The same for many, each with an answer of its own. They wait for the disk together.
    pub fn forget_all(
        &self,
        runs: impl IntoIterator<Item = (RunId, Confirmed)>,
    ) -> Vec<(RunId, Result<(), ForgetError>)> {
        let (mut answers, mut ready, mut executed) = (Vec::new(), Vec::new(), Vec::new());
        for (run, held) in runs {
            match self.ready_to_forget(run, held) {
                Ok((done, marker)) => {
                    executed.push(done);
                    ready.push((run, marker));
                }
                Err(error) => answers.push((run, Err(error))),
            }
        }
        let remembered = match executed.is_empty() {
            true => Ok(()),
            false => self.shared.lock().journal.remember(executed),
        };
        // From here on the journal answers for them. Nobody who wants to begin a run waits for their directories.
        let mut gone = Vec::new();
        // Nobody settles a run while its directory goes: it would look as if it had never been started.
        let settling = self.shared.settling.lock().unwrap_or_else(PoisonError::into_inner);
        for (run, marker) in ready {
            let copy = |error: &io::Error| io::Error::new(error.kind(), error.to_string());
            match remembered.as_ref().map_err(copy).and_then(|()| self.shared.set_aside(&self.shared.place(run), run)) {
                Ok(aside) => {
                    let mut state = self.shared.lock();
                    state.runs.remove(&run);
                    state.changed.remove(&run);
                    drop(state);
                    gone.push((run, marker, aside));
                }
                Err(error) => answers.push((run, Err(error.into()))),
            }
        }
        drop(settling);
        let synced = match gone.is_empty() {
            true => Ok(()),
            false => disk::sync_directory(&self.shared.runs_directory()),
        };
        if let Err(error) = synced {
            // After a crash they may be here again. They have ended, and are told and forgotten once more.
            tracing::warn!(error = &error as &dyn std::error::Error, "what was removed may come back after a crash");
        }
        for (run, marker, aside) in gone {
            sweep(&aside);
            // Somebody who was left running may be in there; then it stays.
            if let Some(marker) = marker {
                marker.cgroups.remove();
            }
            answers.push((run, Ok(())));
        }
        answers
    }

    /// What the journal is to remember of the run, if it may be forgotten.
    fn ready_to_forget(&self, run: RunId, held: Confirmed) -> Result<(Executed, Option<Marker>), ForgetError> {
        let Found { mut standing, manifest, .. } = self.find(run).ok_or(ForgetError::Unknown(run))?;
        if standing == Standing::Running {
            self.shared.settle_if_ending(run);
            standing = self.find(run).ok_or(ForgetError::Unknown(run))?.standing;
        }
        let Standing::Ended(ended) = standing else { return Err(ForgetError::NotEnded(run)) };
        let needed =
            Confirmed { last_seq: ended.last_seq, stdout_bytes: ended.stdout_bytes, stderr_bytes: ended.stderr_bytes };
        if held.last_seq < needed.last_seq
            || held.stdout_bytes < needed.stdout_bytes
            || held.stderr_bytes < needed.stderr_bytes
        {
            return Err(ForgetError::NotConfirmed { run, needed });
        }
        let place = self.shared.place(run);
        // On a full disk this makes room for the line in the journal.
        for stream in Stream::BOTH {
            disk::remove_if_there(&place.stream(stream))?;
        }
        let now = (self.shared.settings.clock)();
        Ok((Executed::new(&manifest, ended.outcome, ended.exit_code, now), place.read_marker()))
    }

    /// Removes a run that never was started. Somebody else may start it then.
    pub fn give_back(&self, run: RunId) -> Result<(), ForgetError> {
        let Found { manifest, .. } = self.find(run).ok_or(ForgetError::Unknown(run))?;
        let place = self.shared.place(run);
        // With the lock no keeper can come any more that would start it after all.
        let lock = place.try_lock()?;
        if lock.is_none() || place.is_started()? {
            return Err(ForgetError::Started(run));
        }
        let mut state = self.shared.lock();
        state.journal.see_host(&manifest.host, manifest.host_fence)?;
        self.shared.discard(&place, run)?;
        state.runs.remove(&run);
        state.changed.remove(&run);
        Ok(())
    }
}
