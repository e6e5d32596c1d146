//! Whether a run may begin here. What the server believes does not count: this is the host's own memory. Pure.

use bowline_model::RunId;
use bowline_model::planted::{self, Mistake};

use super::begin::BeginError;
use super::memory::{Memory, is_same_or_later};
use super::standing::Standing;
use crate::manifest::{HostLock, Manifest};

/// Refuses what was executed before, what has been overtaken, and what must not run beside what runs. `here` are the runs
/// that have a directory, each with its manifest.
pub fn admit<'a>(
    manifest: &Manifest,
    here: impl Iterator<Item = (&'a Manifest, &'a Standing)> + Clone,
    memory: &Memory,
) -> Result<(), BeginError> {
    match here.clone().find(|(other, _)| other.run == manifest.run) {
        None | Some((_, Standing::NeverStarted { .. })) => {}
        Some(_) => return Err(BeginError::AlreadyStarted(manifest.run)),
    }
    executed_before(manifest, here.clone(), memory)?;
    let of_host = here.filter(|(other, _)| other.host == manifest.host);
    let seen = of_host.clone().map(|(other, _)| other.host_fence).max().unwrap_or(0);
    let seen = seen.max(memory.host_fence(&manifest.host));
    if manifest.host_fence < seen {
        return Err(BeginError::Superseded { host: manifest.host.clone(), given: manifest.host_fence, seen });
    }
    match in_the_way(manifest, of_host) {
        Some(run) => Err(BeginError::HostBusy { run }),
        None => Ok(()),
    }
}

/// The same attempt at the job, or a later one: in a directory here, or remembered.
fn executed_before<'a>(
    manifest: &Manifest,
    here: impl Iterator<Item = (&'a Manifest, &'a Standing)>,
    memory: &Memory,
) -> Result<(), BeginError> {
    if let Some(done) = memory.executed(manifest.job, manifest.fence, manifest.attempt) {
        return Err(BeginError::AlreadyExecuted {
            run: done.run,
            outcome: Some(done.outcome),
            exit_code: done.exit_code,
        });
    }
    for (other, standing) in here {
        let (done, asked) = ((other.fence, other.attempt), (manifest.fence, manifest.attempt));
        let same_job = other.job == manifest.job && is_same_or_later(done, asked);
        match standing {
            _ if !same_job || other.run == manifest.run => {}
            Standing::NeverStarted { .. } => {}
            Standing::Running => {
                return Err(BeginError::AlreadyExecuted { run: other.run, outcome: None, exit_code: None });
            }
            Standing::Ended(ended) => {
                let (outcome, exit_code) = (Some(ended.outcome), ended.exit_code);
                return Err(BeginError::AlreadyExecuted { run: other.run, outcome, exit_code });
            }
        }
    }
    Ok(())
}

/// A run that has not ended and does not share the host with this one.
fn in_the_way<'a>(
    manifest: &Manifest,
    mut of_host: impl Iterator<Item = (&'a Manifest, &'a Standing)>,
) -> Option<RunId> {
    if planted::on(Mistake::GateOpen) {
        return None;
    }
    let both_share = |other: &Manifest| manifest.lock == HostLock::Shared && other.lock == HostLock::Shared;
    let conflict = of_host.find(|(other, standing)| **standing == Standing::Running && !both_share(other));
    conflict.map(|(other, _)| other.run)
}
