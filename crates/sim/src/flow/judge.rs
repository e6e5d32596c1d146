//! What must be true of workflows once everything has come to rest.

use std::collections::{BTreeMap, BTreeSet};

use bowline_engine::Engine;
use bowline_model::job::JobKind;
use bowline_model::{JobId, JobStatus, Outcome, RunId, TenantId};
use bowline_store::{FlowStore, JobRecord, RunRecord, WaitKind};
use bowline_workflow::flow::{Step, StepStatus, Waiting};
use bowline_workflow::node::Exit;
use serde_json::Value;

use super::counts::FlowCounts;
use super::notes::FlowNotes;
use super::records::Story;
use crate::oracle::Violation;
use crate::world::{Notes, World};

/// So many steps of a run are looked at as people do.
const LOOKS: u32 = 2;

/// Compares runs with their records, their jobs and the notes.
pub async fn judge(world: &World, all: &[(TenantId, JobRecord, Vec<RunRecord>)]) -> anyhow::Result<Vec<Violation>> {
    let mut found = Vec::new();
    if world.plan.askers == 0 {
        return Ok(found);
    }
    let jobs: BTreeMap<JobId, &JobRecord> = all.iter().map(|(_, job, _)| (job.id, job)).collect();
    let mut wished = BTreeMap::new();
    for job in jobs.values().filter(|job| job.state.kind == JobKind::Workflow) {
        let Some((story, forked_step)) = add_up(world, job, &mut found).await? else { continue };
        {
            let mut notes = world.notes.borrow_mut();
            truthful(job.id, &story, &jobs, &notes, &mut found);
            once_heard(job.id, &story, &notes.flow, &mut found);
            count(&story, job, forked_step.is_some(), &mut notes.flow.counts);
        }
        one_version(job.id, &story, &mut found);
        for launched in story.launched {
            if wished.insert(launched.job, job.id).is_some() {
                found.push(Violation::new("W1", format!("job {} was wished for twice", launched.job)));
            }
            if !launched.at_once_over && !jobs.contains_key(&launched.job) {
                let text =
                    format!("run {}: {:?} waits for job {}, which is not there", job.id, launched.place, launched.job);
                found.push(Violation::new("W5", text));
            }
        }
    }
    for job in jobs.values() {
        if let Some(run) = job.begun_by
            && wished.get(&job.id) != Some(&run)
        {
            found.push(Violation::new("W1", format!("run {run} began job {}, but never wished for it", job.id)));
        }
    }
    for tenant in world.tenants {
        for kind in [WaitKind::Approval, WaitKind::Event] {
            for wait in world.ledger.list_waits(tenant, kind, None, 100).await?.items {
                let text = format!("run {} is over, and {:?} still waits", wait.job, wait.wait.node);
                found.push(Violation::new("C6", text));
            }
        }
    }
    Ok(found)
}

/// C6: the job, the read model and what people are shown are the sum of the records. The step that a fork begins from.
async fn add_up(
    world: &World,
    job: &JobRecord,
    found: &mut Vec<Violation>,
) -> anyhow::Result<Option<(Story, Option<u32>)>> {
    let (id, status) = (job.id, job.state.status);
    let mut blame = |promise, text: String| found.push(Violation::new(promise, format!("run {id}: {text}")));
    let turns = world.ledger.flow_records(job.tenant, id, 0, 0, u32::MAX).await?.items;
    let spec = world.notes.borrow().flow.asked.get(&id).cloned();
    // What is wrong with the records themselves was told by whoever watched.
    let (story, _) = Story::remember(id, spec.as_ref(), &turns);
    let Some(flow) = world.ledger.find_flow(job.tenant, id).await? else {
        blame("C6", "its job has no run".to_owned());
        return Ok(None);
    };
    let forked_step = flow.forked_from.map(|(_, step)| step);
    match &story.ended {
        _ if status == JobStatus::Error => blame("C10", format!("it was given up: {:?}", job.error)),
        // It was canceled before its time to begin.
        None if status == JobStatus::Canceled && turns.is_empty() => {}
        None => blame("C14", format!("it is {status}, and its records do not say so")),
        Some((recorded, _)) if *recorded != status => {
            blame("C6", format!("it is {status}, its records say {recorded}"));
        }
        Some((JobStatus::Succeeded, result)) => {
            let shown: Value = serde_json::from_str(job.result.as_deref().unwrap_or("null")).unwrap_or_default();
            if shown != *result {
                blame("C6", format!("its result is {shown}, its records say {result}"));
            }
            let ends = |step: &Step| {
                let node = step.node.as_str();
                step.status == StepStatus::Success && (node.starts_with("end") || node == "rescue")
            };
            // A fork may begin where the other run had come to its end.
            let from_the_end = match flow.forked_from {
                Some((other, step)) if story.steps.is_empty() => {
                    let notes = world.notes.borrow();
                    let turns = notes.flow.seen.get(&other).map(|seen| seen.turns.as_slice()).unwrap_or_default();
                    Story::read(other, None, turns).0.steps.iter().any(|past| past.n == step && ends(past))
                }
                _ => false,
            };
            if !from_the_end && !story.steps[story.since_retry..].iter().any(ends) {
                blame("W2", "it succeeded, and never came to an end".to_owned());
            }
        }
        Some(_) => {}
    }
    let first = forked_step.unwrap_or(0) + 1;
    if story.steps.first().is_some_and(|step| step.n != first) {
        blame("W3", format!("its first step is not step {first}"));
    }
    let last = story.steps.last().map_or(first - 1, |step| step.n);
    if flow.steps != last {
        blame("C6", format!("it has {} steps, its records tell of {last}", flow.steps));
    }
    let Some(server) = world.reached() else { return Ok(Some((story, forked_step))) };
    let stride = (last / LOOKS).max(1);
    for step in (first..=last).rev().step_by(stride as usize) {
        if let Some(text) = differs(&server.engine, job, &story, step, forked_step.is_some()).await? {
            blame("C6", text);
        }
    }
    Ok(Some((story, forked_step)))
}

/// What people are shown of a step, if that is not what the records say.
async fn differs(
    engine: &Engine,
    job: &JobRecord,
    story: &Story,
    step: u32,
    forked: bool,
) -> anyhow::Result<Option<String>> {
    let shown = match engine.flows.context(job.tenant, job.id, Some(step)).await {
        Ok(view) => view.context,
        Err(error) => return Ok(Some(format!("step {step} cannot be shown: {error}"))),
    };
    let Some((outputs, variables)) = story.after.get(&step) else { return Ok(None) };
    for (node, output) in outputs {
        if shown["steps"][node.as_str()]["output"] != *output {
            return Ok(Some(format!("after step {step} the output of {node} is shown as something else")));
        }
    }
    // A fork knows what the other run knew.
    if forked {
        return Ok(None);
    }
    let known = shown["steps"].as_object().map_or(0, serde_json::Map::len);
    if known != outputs.len() {
        return Ok(Some(format!("after step {step} {known} nodes are shown to have an output, not {}", outputs.len())));
    }
    Ok((shown["variables"].as_object() != Some(variables)).then(|| {
        format!("after step {step} the variables are shown as {:?}, not as {variables:?}", shown["variables"])
    }))
}

/// R2: what a node says of its job is what the job says, and what the worker knows.
fn truthful(run: JobId, story: &Story, jobs: &BTreeMap<JobId, &JobRecord>, notes: &Notes, found: &mut Vec<Violation>) {
    for step in story.steps.iter().filter(|step| step.status == StepStatus::Success) {
        let Some(Waiting::Call { job, .. }) = story.began.get(&(step.node.clone(), step.visit)) else { continue };
        let status = jobs.get(job).map(|job| job.state.status);
        if status != Some(JobStatus::Succeeded) {
            found.push(Violation::new("R2", format!("run {run}: {} succeeded, but its job is {status:?}", step.node)));
        }
        let worked = step.output.get("run").and_then(Value::as_str).and_then(|id| id.parse::<RunId>().ok());
        let Some(worked) = worked else { continue };
        let outcome = notes.runs.get(&worked).and_then(|known| known.outcome);
        if outcome != Some(Outcome::Succeeded) {
            let text = format!("run {run}: {} says what run {worked} said, which knows {outcome:?}", step.node);
            found.push(Violation::new("R2", text));
        }
    }
}

/// A signal is heard as often as it was sent, at most; a decision once, and as it was made.
fn once_heard(run: JobId, story: &Story, notes: &FlowNotes, found: &mut Vec<Violation>) {
    for (signal, came) in &story.letters {
        let sent = notes.signals.get(signal).copied().unwrap_or(0);
        if *came > sent {
            let text = format!("run {run}: signal {signal} was sent {sent} times and came {came} times");
            found.push(Violation::new("W1", text));
        }
    }
    let mut deciders = BTreeSet::new();
    for step in &story.steps {
        let Some(by) = step.output.get("by").and_then(Value::as_str) else { continue };
        let right = notes.decisions.get(by).is_some_and(|d| d.job == run && step.output["approved"] == d.yes);
        if !right || !deciders.insert(by.to_owned()) {
            let text = format!("run {run}: {} says that {by} decided {}", step.node, step.output["approved"]);
            found.push(Violation::new("A2", text));
        }
    }
    // Two who were both told that theirs counts decided two different things.
    let taken = notes.decisions.values().filter(|d| d.job == run && d.taken).count();
    let asked = story.began.values().filter(|wait| matches!(wait, Waiting::Approval { .. })).count();
    if taken > asked {
        found.push(Violation::new("A2", format!("run {run} asked {asked} times, and {taken} were told theirs counts")));
    }
}

/// W7: a run stays with the version that it began with.
fn one_version(run: JobId, story: &Story, found: &mut Vec<Violation>) {
    let versions: BTreeSet<&str> =
        story.steps.iter().filter_map(|step| step.node.as_str().split_once("_v").map(|(_, version)| version)).collect();
    if versions.len() > 1 {
        found.push(Violation::new("W7", format!("run {run} has steps of versions {versions:?}")));
    }
}

fn count(story: &Story, job: &JobRecord, forked: bool, counts: &mut FlowCounts) {
    counts.runs += 1;
    counts.steps += story.steps.len() as u64;
    counts.children += u64::from(job.begun_by.is_some());
    counts.forked += u64::from(forked);
    counts.retried += story.retried;
    counts.retried_after_cancel += story.retried_after_cancel;
    counts.halted += story.halted;
    counts.undone += story.undone;
    counts.not_undone += story.not_undone;
    counts.begun_again += story.begun_again;
    counts.items += story.items;
    counts.signals_heard += story.heard.values().sum::<u64>();
    counts.signals_early += story.early;
    match job.state.status {
        JobStatus::Succeeded => counts.succeeded += 1,
        JobStatus::Failed => counts.failed += 1,
        JobStatus::Canceled => counts.canceled += 1,
        _ => {}
    }
    let mut over = BTreeSet::new();
    for step in &story.steps {
        let place = (step.node.clone(), step.visit);
        let expired = matches!(&step.exit, Exit::Port(port) if **port == *"expired");
        counts.waits_expired += u64::from(expired);
        counts.looped += u64::from(step.node.as_str().starts_with("condition") && step.visit > 1);
        counts.joined += u64::from(step.node.as_str().starts_with("join"));
        counts.rescued += u64::from(step.node.as_str() == "rescue");
        counts.decided += u64::from(step.output.get("by").is_some_and(Value::is_string));
        counts.slept += u64::from(matches!(story.began.get(&place), Some(Waiting::Until(_))));
        over.insert(place);
    }
    let failures = story.steps.windows(2).filter(|pair| pair[0].status == StepStatus::Failed).count();
    counts.failures_led_on += failures as u64;
    // Whoever still waited when the run was over was told to stop.
    let left = story.launched.iter().filter(|launched| !launched.at_once_over && !over.contains(&launched.place));
    counts.parents_left_children += left.count() as u64;
    counts.snapshots_passed += u64::from(story.outputs.values().any(|output| output.to_string().len() > 4_000));
}
