//! From an accepted run to one that has a keeper, with a chance to crash or freeze between any two steps.

use std::sync::Arc;
use std::time::Duration;

use bowline_agent::fleet::decisions::{Executor, Go, Story, manifest, refusal};
use bowline_execute::{BeginError, Manifest, admit};
use bowline_model::{ErrorClass, RunId, RunStatus};
use bowline_protocol::ResultStatus;
use bowline_store::ClaimedRun;
use tokio::time::Instant;

use super::agent::Agent;
use super::door::read_task;
use super::keeper::spawn_keeper;
use super::machine::Directory;
use crate::oracle::Violation;
use crate::server::TIMES;

/// Begins a run that was accepted.
pub async fn begin(agent: &Agent, offer: &ClaimedRun) {
    let Agent { world, machine, roster, .. } = agent;
    let (run, fence) = (offer.run, offer.fence);
    step(agent).await;
    let Some((task, wish)) = read_task(offer) else {
        world.violated(Violation::new("broken", format!("run {run} cannot be read by its agent")));
        return roster.done(run);
    };
    let manifest = match manifest(&task, &wish, false) {
        Ok(manifest) => manifest,
        Err(error) => {
            let message = error.to_string();
            return tell(
                agent,
                run,
                Story::not_begun(fence, world.now(), "BAD_COMMAND", ErrorClass::Permanent, &message),
            );
        }
    };
    let lease = Duration::from_millis(u64::try_from(TIMES.ttl_ms).unwrap_or(0));
    match roster.begin(run, Executor::Local, Instant::now(), lease) {
        Go::Begin => {}
        Go::Canceled => return tell(agent, run, Story::canceled(fence, world.now())),
        Go::NotOurs => return roster.done(run),
    }
    step(agent).await;
    if let Err(error) = make_directory(agent, &manifest, offer) {
        world.notes.borrow_mut().fleet.counts.refused_by_host += 1;
        let known = machine.disk.borrow().runs.contains_key(&run);
        if let Some(story) = refusal(fence, world.now(), &error).filter(|_| !known) {
            tell(agent, run, story);
        }
        return;
    }
    step(agent).await;
    spawn_keeper(world, machine, run);
}

/// A moment in which anything may happen to the agent.
async fn step(agent: &Agent) {
    tokio::time::sleep(Duration::from_millis(agent.world.between(1, 20))).await;
    agent.machine.thaw().await;
}

/// The real gate, on the machine's own memory.
fn make_directory(agent: &Agent, manifest: &Manifest, offer: &ClaimedRun) -> Result<(), BeginError> {
    let mut disk = agent.machine.disk.borrow_mut();
    let standings: Vec<_> = disk.runs.values().map(|d| (Arc::clone(&d.manifest), d.standing())).collect();
    let here = standings.iter().map(|(manifest, standing)| (&**manifest, standing));
    let admitted = admit(manifest, here, &disk.memory);
    if matches!(admitted, Err(BeginError::HostBusy { .. })) {
        disk.memory.see_host(&manifest.host, manifest.host_fence);
    }
    admitted?;
    let directory = Directory {
        manifest: Arc::new(manifest.clone()),
        command: offer.unit.as_ref().map_or(offer.job, |unit| unit.command),
        claimed_at: offer.claimed_at,
        started: false,
        canceled: false,
        records: Vec::new(),
        locked: true,
    };
    disk.runs.insert(manifest.run, directory);
    Ok(())
}

/// Tells the story of a run that has no directory.
pub fn tell(agent: &Agent, run: RunId, story: Story) {
    let status = match story.ended.as_ref().map(|end| end.status) {
        Some(ResultStatus::Success) => RunStatus::Succeeded,
        Some(ResultStatus::Canceled) => RunStatus::Canceled,
        Some(ResultStatus::Failure) | None => RunStatus::Failed,
    };
    agent.world.notes.borrow_mut().fleet.not_begun.insert(run, status);
    agent.stories.borrow_mut().push((run, story));
    agent.called.notify_one();
}
