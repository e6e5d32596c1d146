//! Whether a run may begin here. What the server believes does not count: this is the host's own memory.

use bowline_model::RunId;

use super::begin::BeginError;
use super::standing::Standing;
use super::state::State;
use crate::manifest::{HostLock, Manifest};

impl State {
    /// Refuses what was executed before, what has been overtaken, and what must not run beside what runs.
    pub(super) fn admit(&self, manifest: &Manifest) -> Result<(), BeginError> {
        match self.runs.get(&manifest.run).map(|entry| &entry.standing) {
            None | Some(Standing::NeverStarted { .. }) => {}
            Some(_) => return Err(BeginError::AlreadyStarted(manifest.run)),
        }
        self.executed_before(manifest)?;
        let seen = self.highest_host_fence(manifest);
        if manifest.host_fence < seen {
            return Err(BeginError::Superseded { host: manifest.host.clone(), given: manifest.host_fence, seen });
        }
        match self.in_the_way(manifest) {
            Some(run) => Err(BeginError::HostBusy { run }),
            None => Ok(()),
        }
    }

    /// The same hand-out of the job, or a later one: in a directory here, or remembered.
    fn executed_before(&self, manifest: &Manifest) -> Result<(), BeginError> {
        if let Some(done) = self.journal.executed(manifest.job, manifest.fence) {
            return Err(BeginError::AlreadyExecuted {
                run: done.run,
                outcome: Some(done.outcome),
                exit_code: done.exit_code,
            });
        }
        for (run, entry) in &self.runs {
            let same_job = entry.manifest.job == manifest.job && entry.manifest.fence >= manifest.fence;
            match &entry.standing {
                _ if !same_job || *run == manifest.run => {}
                Standing::NeverStarted { .. } => {}
                Standing::Running => {
                    return Err(BeginError::AlreadyExecuted { run: *run, outcome: None, exit_code: None });
                }
                Standing::Ended(ended) => {
                    let (outcome, exit_code) = (Some(ended.outcome), ended.exit_code);
                    return Err(BeginError::AlreadyExecuted { run: *run, outcome, exit_code });
                }
            }
        }
        Ok(())
    }

    fn highest_host_fence(&self, manifest: &Manifest) -> u64 {
        let same_host = self.runs.values().filter(|entry| entry.manifest.host == manifest.host);
        let here = same_host.map(|entry| entry.manifest.host_fence).max().unwrap_or(0);
        here.max(self.journal.host_fence(&manifest.host))
    }

    /// A run that has not ended and does not share the host with this one.
    fn in_the_way(&self, manifest: &Manifest) -> Option<RunId> {
        let both_share = |other: &Manifest| manifest.lock == HostLock::Shared && other.lock == HostLock::Shared;
        let conflict = self.runs.iter().find(|(_, entry)| {
            entry.standing == Standing::Running && entry.manifest.host == manifest.host && !both_share(&entry.manifest)
        });
        conflict.map(|(run, _)| *run)
    }
}
