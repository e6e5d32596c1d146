//! What must be true whatever went wrong. Written from the contract and the witnesses' notes, not from the code.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bowline_model::job::JobKind;
use bowline_model::{Event, EventKind, JobId, JobStatus, Outcome, RunId, RunStatus, TenantId};
use bowline_store::{EventFilter, EventStore, JobFilter, JobRecord, JobStore, MaintenanceStore, Position, RunRecord};
use serde_json::Value;

use crate::server::TIMES;
use crate::world::{Notes, World};
use crate::{fleet, flow};

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub promise: &'static str,
    pub text: String,
}

impl Violation {
    pub const fn new(promise: &'static str, text: String) -> Self {
        Self { promise, text }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.text)
    }
}

/// Every job of every tenant, with its runs.
pub async fn everything(world: &World) -> anyhow::Result<Vec<(TenantId, JobRecord, Vec<RunRecord>)>> {
    let mut all = Vec::new();
    for tenant in world.tenants {
        let mut before = None;
        loop {
            let page = world.ledger.list_jobs(tenant, JobFilter::default(), before, 200).await?;
            for job in &page.items {
                if let Some((job, runs)) = world.ledger.find_job(tenant, job.id).await? {
                    all.push((tenant, job, runs));
                }
            }
            before = page.next;
            if before.is_none() {
                break;
            }
        }
    }
    Ok(all)
}

/// Compares the ledger with the notes, once everything has come to rest.
pub async fn judge(world: &World, events: &[Event]) -> anyhow::Result<Vec<Violation>> {
    let mut found = Vec::new();
    let verified = world.ledger.verify(10).await?;
    found.extend(verified.faults.into_iter().map(|fault| Violation::new("C6", fault)));
    let all = everything(world).await?;
    {
        let notes = world.notes.borrow();
        acknowledged(&all, &notes, &mut found);
        once_each(&all, &notes, &mut found);
        truthful(&all, &notes, &mut found);
    }
    let commands: Vec<&JobRecord> =
        all.iter().map(|(_, job, _)| job).filter(|job| job.state.kind == JobKind::Command).collect();
    found.extend(fleet::judge(world, &commands, events).await?);
    found.extend(flow::judge(world, &all).await?);
    Ok(found)
}

/// C1, C14: whatever was acknowledged is there, and has ended.
fn acknowledged(all: &[(TenantId, JobRecord, Vec<RunRecord>)], notes: &Notes, found: &mut Vec<Violation>) {
    let known: BTreeMap<(TenantId, JobId), JobStatus> =
        all.iter().map(|(tenant, job, _)| ((*tenant, job.id), job.state.status)).collect();
    for ((tenant, ask), job) in &notes.acked {
        match known.get(&(*tenant, *job)) {
            None => {
                found.push(Violation::new("C1", format!("ask {ask} was acknowledged as {job}, which is not there")));
            }
            Some(status) if !status.is_terminal() => {
                found.push(Violation::new("C14", format!("job {job} of ask {ask} never ends; it is {status}")));
            }
            Some(_) => {}
        }
    }
}

/// C9, D3: one ask makes one job, and one dead letter makes one more.
fn once_each(all: &[(TenantId, JobRecord, Vec<RunRecord>)], notes: &Notes, found: &mut Vec<Violation>) {
    let mut by_ask: BTreeMap<u64, Vec<JobId>> = BTreeMap::new();
    let mut by_letter: BTreeMap<JobId, BTreeSet<JobId>> = BTreeMap::new();
    for (_, job, _) in all {
        match job.replay_of {
            Some(letter) => drop(by_letter.entry(letter).or_default().insert(job.id)),
            // What a run of a workflow began, or was made of another one, nobody asked for by itself.
            None if job.begun_by.is_some() => {}
            None => {
                let payload: Value =
                    serde_json::from_str(job.payload.as_deref().unwrap_or("null")).unwrap_or(Value::Null);
                let ask = match job.state.kind {
                    JobKind::Command => &payload["params"]["ask"],
                    JobKind::Workflow if payload.get("forked_from").is_some() => continue,
                    JobKind::Workflow => &payload["input"]["ask"],
                    JobKind::Task | JobKind::Unit(_) => &payload["ask"],
                };
                by_ask.entry(ask.as_u64().unwrap_or(0)).or_default().push(job.id);
            }
        }
    }
    for (ask, jobs) in by_ask {
        if jobs.len() > 1 {
            found.push(Violation::new("C9", format!("ask {ask} became {} jobs", jobs.len())));
        }
    }
    // A job that was retried after it died has another letter; each death allows one replay.
    let deaths = |id: JobId| {
        all.iter().find(|(_, job, _)| job.id == id).map_or(1, |(_, job, runs)| {
            let retried = u32::try_from(runs.len()).unwrap_or(1) / job.policy.retry.max_attempts.max(1);
            1 + retried as usize
        })
    };
    for (letter, jobs) in by_letter {
        let told = notes.replays.get(&letter).map_or(0, Vec::len);
        if jobs.len() > deaths(letter).max(1) {
            let text = format!("the dead letter of {letter} became {} jobs ({told} were told)", jobs.len());
            found.push(Violation::new("D3", text));
        }
    }
}

/// R2, J3: a success stands in the ledger only where a worker really succeeded, and the other way round.
fn truthful(all: &[(TenantId, JobRecord, Vec<RunRecord>)], notes: &Notes, found: &mut Vec<Violation>) {
    for (_, job, runs) in
        all.iter().filter(|(_, job, _)| !matches!(job.state.kind, JobKind::Command | JobKind::Workflow))
    {
        for run in runs {
            let outcome = notes.runs.get(&run.id).and_then(|n| n.outcome);
            let right = match run.status {
                RunStatus::Succeeded => outcome == Some(Outcome::Succeeded),
                RunStatus::Failed => matches!(outcome, Some(Outcome::Failed(_))),
                RunStatus::Canceled => outcome == Some(Outcome::Canceled),
                _ => true,
            };
            if !right {
                let text = format!("run {} is {}, but its worker knows {outcome:?}", run.id, run.status);
                found.push(Violation::new("R2", text));
            }
        }
        let done = runs.iter().any(|run| run.status == RunStatus::Succeeded);
        if job.state.status == JobStatus::Succeeded && !done {
            found.push(Violation::new("J3", format!("job {} succeeded without a run that did", job.id)));
        }
    }
}

/// C2, R5: nobody was called lost who could not have been heard, or was heard.
pub async fn nobody_was_lost_falsely(world: &World, from: &mut Position) -> anyhow::Result<()> {
    loop {
        let page = world.ledger.events_after(*from, EventFilter::default(), 500).await?;
        *from = page.end;
        for (_, event) in page.events {
            let lost = event.data.outcome == Some(RunStatus::Lost)
                && matches!(
                    event.kind,
                    EventKind::RunLost | EventKind::JobDeadLettered | EventKind::JobErrored | EventKind::JobCanceled
                );
            let Some(run) = event.data.run_id.filter(|_| lost) else { continue };
            check_lost(world, run, event.at);
        }
        if !page.more {
            return Ok(());
        }
    }
}

fn check_lost(world: &World, run: RunId, at: bowline_model::Timestamp) {
    let mut notes = world.notes.borrow_mut();
    let known = notes.runs.get(&run).cloned().unwrap_or_default();
    let grace = TIMES.ttl_ms;
    let heard = known.heard_at.is_some_and(|heard| at.millis_since(heard) < grace && at >= heard);
    let trying = known.starts > 0 && known.silent_since.is_none_or(|since| since > at);
    let unreachable = at.millis_since(notes.well_since) < grace;
    if heard || (trying && unreachable) {
        let text =
            format!("run {run} was called lost at {at}, although it was {}", if heard { "heard" } else { "trying" });
        notes.violations.push(Violation::new("R5", text));
    }
}
