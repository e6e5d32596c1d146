//! The witness who reads the records of every run while it goes on.

use bowline_model::{JobId, JobStatus};
use bowline_store::{FlowStore, JobRecord, JobStore, StoreResult};

use super::notes::Seen;
use super::records::Story;
use super::stage::all_runs;
use crate::oracle::Violation;
use crate::world::World;

/// So many broken promises are proof enough; whoever looks on only sees more of the same.
const ENOUGH: usize = 20;

/// Looks at every run. What cannot be read now is read later.
pub async fn watch(world: &World) -> StoreResult<()> {
    if world.plan.askers == 0 || world.notes.borrow().violations.len() >= ENOUGH {
        return Ok(());
    }
    // Before anything is read: what is wanted from then on can change it.
    let retries = world.notes.borrow().flow.retries.clone();
    let runs = all_runs(world).await?;
    let stored = world.ledger.load_flows(runs.iter().map(|run| run.number).collect(), Some(0)).await?;
    for run in runs {
        let version = stored.iter().find(|flow| flow.number == run.number).map_or(0, |flow| flow.version);
        let retries = retries.get(&run.id).copied().unwrap_or(0);
        look_at(world, run, version, retries).await?;
    }
    Ok(())
}

async fn look_at(world: &World, run: JobRecord, version: u64, retries: u64) -> StoreResult<()> {
    let (job, tenant) = (run.id, run.tenant);
    let before = world.notes.borrow().flow.seen.get(&job).cloned();
    let stayed = before.as_ref().filter(|seen| seen.version == version);
    let turns = match stayed {
        Some(seen) => seen.turns.clone(),
        None => world.ledger.flow_records(tenant, job, 0, 0, u32::MAX).await?.items,
    };
    if let Some(before) = &before {
        if !turns.starts_with(&before.turns) {
            world.violated(Violation::new("W3", format!("run {job}: what was recorded of it has changed")));
        }
        // Whoever wants it to go on where it failed was written down before they said so.
        let over = before.status.is_terminal() && before.retries == retries;
        if over && (before.status, &before.result, before.updated_at) != (run.state.status, &run.result, run.updated_at)
        {
            let text = format!("run {job} was {}, and is {} by now", before.status, run.state.status);
            world.violated(Violation::new("W1", text));
        }
    }
    if stayed.is_none() {
        let spec = world.notes.borrow().flow.asked.get(&job).cloned();
        let (story, wrong) = Story::read(job, spec.as_ref(), &turns);
        let clock_ms = i64::try_from(world.plan.clock_ms).unwrap_or(0);
        let early = story.slept_enough(job, world.now(), clock_ms);
        // Each mistake is told once, by whoever sees it first.
        let mut notes = world.notes.borrow_mut();
        for violation in wrong.into_iter().chain(early) {
            if notes.violations.len() < ENOUGH && !notes.violations.contains(&violation) {
                notes.violations.push(violation);
            }
        }
    }
    if run.state.status.is_terminal() && before.as_ref().is_none_or(|seen| seen.updated_at != run.updated_at) {
        leaves_nobody_behind(world, &run, &turns).await?;
    }
    let seen = Seen {
        tenant,
        begun_by: run.begun_by,
        status: run.state.status,
        updated_at: run.updated_at,
        result: run.result,
        version,
        turns,
        retries,
    };
    world.notes.borrow_mut().flow.seen.insert(job, seen);
    Ok(())
}

/// A run that is over has no living jobs: all that it began have ended, or have been told to stop.
async fn leaves_nobody_behind(world: &World, run: &JobRecord, turns: &[String]) -> StoreResult<()> {
    let (story, _) = Story::read(run.id, None, turns);
    for launched in story.launched {
        let Some((child, _)) = world.ledger.find_job(run.tenant, launched.job).await? else { continue };
        if child.state.status.is_terminal() || child.state.status == JobStatus::Canceling {
            continue;
        }
        // Unless it goes on again by now.
        let Some((again, _)) = world.ledger.find_job(run.tenant, run.id).await? else { continue };
        if again.state.status.is_terminal() && again.updated_at == run.updated_at {
            let text = format!("run {} is {}, but {} lives", run.id, run.state.status, about(child.id, &child));
            world.violated(Violation::new("W8", text));
        }
    }
    Ok(())
}

fn about(job: JobId, record: &JobRecord) -> String {
    format!("its {} {job}, which is {},", record.task_type, record.state.status)
}
