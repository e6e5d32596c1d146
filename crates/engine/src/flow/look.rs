//! Looking at runs: their steps, their context at any of them, and runs that go on from there.

use std::sync::Arc;

use bowline_model::idempotency::RequestHash;
use bowline_model::{JobId, JobStatus, Labels, Lane, TaskType, TenantId, Timestamp};
use bowline_store::{FlowStanding, NewFlow, NewTurn, Origin, StoreError, StoredFlow, Submitted};
use bowline_workflow::flow::{Breakpoint, Debug, Flow, Order, Record, write_records};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::definitions::{Definition, DefinitionError};
use super::memory::Kept;
use super::records::{Walk, read_aside, said_after, since_snapshot, size_of};
use super::room::{HISTORY_BYTES_MAX, Room};
use super::start::remembered;
use super::turner::fold;
use super::{Flows, Hands};
use crate::intake::JobRequest;

/// Why there is nothing to see.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    #[error("there is no such run of a workflow")]
    NotFound,
    #[error("the run has {has} steps, not {asked}")]
    NoStep { asked: u32, has: u32 },
    /// More than is read at once.
    #[error("the execution has recorded {bytes} bytes since its last snapshot, and {max} can be read at once")]
    TooLarge { bytes: u64, max: u64 },
    #[error("{0}")]
    Bad(String),
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Variables that somebody set by hand while a run stood after a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Edit {
    pub after_step: u32,
    pub by: String,
    pub reason: Option<String>,
    pub at: Timestamp,
    pub changed: Vec<Changed>,
}

impl Edit {
    pub(super) fn of(record: &Record, after_step: u32) -> Option<Self> {
        let Record::Steered { order: Order::Edit(variables), by, reason, at, before } = record else { return None };
        let changed = variables.iter().map(|(name, value)| Changed {
            path: format!("variables.{name}"),
            before: before.get(name).cloned().unwrap_or_default(),
            after: value.clone(),
        });
        let changed = changed.collect();
        Some(Self { after_step, by: by.clone(), reason: reason.clone(), at: *at, changed })
    }
}

/// What a run knew after a step, and what the step changed.
#[derive(Debug, Clone, Serialize)]
pub struct ContextView {
    pub step: u32,
    pub steps: u32,
    pub context: Value,
    /// What the step changed: the paths that it set, with what was there before and is there after.
    pub diff: Vec<Changed>,
    /// What people set by hand after the step, before the next one was over. Of a past step, the context does not know it.
    pub edits: Vec<Edit>,
    /// Where the run was then.
    pub places: Vec<Value>,
    /// How it was steered then: breakpoints, pinned outputs, whether and why it stands still.
    pub debug: Debug,
}

/// One thing that a step or a person changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Changed {
    pub path: String,
    pub before: Value,
    pub after: Value,
}

/// A run that goes on from a step of another.
#[derive(Debug, Clone)]
pub struct Forking {
    pub from_step: u32,
    /// Variables to set before it goes on.
    pub variables: Map<String, Value>,
    /// Another definition to go on with.
    pub definition: Option<Definition>,
    pub debug: bool,
    /// Asked again with the same key for the same, the answer is the run that began the first time.
    pub key: Option<String>,
}

impl Forking {
    /// What is asked for, of this run.
    fn hash(&self, job: JobId) -> Result<RequestHash, StoreError> {
        let definition = self.definition.as_ref().map(Definition::write).transpose()?.unwrap_or_default();
        let variables = Value::Object(self.variables.clone()).to_string();
        Ok(RequestHash::of_parts(&[
            b"fork",
            job.to_string().as_bytes(),
            &self.from_step.to_be_bytes(),
            variables.as_bytes(),
            definition.as_bytes(),
            &[u8::from(self.debug)],
        ]))
    }
}

impl Flows {
    /// Takes room for reading an execution up to a step. Once for each request: whoever holds some and waits for more may
    /// wait for ever.
    pub(super) async fn room(&self, tenant: TenantId, job: JobId, step: Option<u32>) -> Result<Room, LookError> {
        let number = self.ledger.flow_number(tenant, job).await?.ok_or(LookError::NotFound)?;
        let sizes = self.ledger.flow_sizes(vec![number], step).await?;
        let bytes = sizes.first().map_or(0, |(_, bytes)| *bytes);
        if bytes > HISTORY_BYTES_MAX {
            return Err(LookError::TooLarge { bytes, max: HISTORY_BYTES_MAX });
        }
        let closing = || LookError::Store(StoreError::Unavailable("the server is closing".to_owned()));
        self.rooms.take(tenant, bytes).await.ok_or_else(closing)
    }

    /// What is stored of a run up to a step, with what happened between that step and the next; all of it, for `None`.
    pub(super) async fn stored(
        &self,
        _room: &Room,
        tenant: TenantId,
        job: JobId,
        step: Option<u32>,
    ) -> Result<StoredFlow, LookError> {
        let number = self.ledger.flow_number(tenant, job).await?.ok_or(LookError::NotFound)?;
        let stored = self.ledger.load_flows(vec![number], step).await?;
        stored.into_iter().next().ok_or(LookError::NotFound)
    }

    /// A run as it was before the step after this one, with what people changed until then; and what its definition is called.
    pub(super) async fn past(
        &self,
        room: &Room,
        tenant: TenantId,
        job: JobId,
        step: u32,
    ) -> Result<(Kept, i64), LookError> {
        let mut past = self.look_at(room, tenant, job, Some(step)).await?;
        let stored = self.stored(room, tenant, job, Some(step)).await?;
        let (definition, bytes) = (stored.definition, size_of(&stored));
        let work = move || {
            for record in said_after(&since_snapshot(&stored)?, step) {
                past.flow.apply(record);
            }
            Ok::<_, LookError>(past)
        };
        Ok((read_aside(tenant, bytes, work).await?, definition))
    }

    /// A run as it was after a step; as it is, for `None`.
    pub(super) async fn look_at(
        &self,
        room: &Room,
        tenant: TenantId,
        job: JobId,
        step: Option<u32>,
    ) -> Result<Kept, LookError> {
        let stored = self.stored(room, tenant, job, step).await?;
        let program = self.definitions.of_run(tenant, stored.definition).await?;
        // What was before the step that a run goes on from is in the other run.
        if let Some(asked) = step
            && let Some((other, first)) = self.ledger.find_flow(tenant, job).await?.and_then(|flow| flow.forked_from)
            && asked < first
        {
            let what = format!("this run goes on from step {first} of job {other}; look for step {asked} there");
            return Err(LookError::Bad(what));
        }
        let run = read_aside(tenant, size_of(&stored), move || fold(program, &stored, step)).await?;
        match step {
            Some(asked) if run.flow.steps() < asked => Err(LookError::NoStep { asked, has: run.flow.steps() }),
            _ => Ok(run),
        }
    }

    /// The node of the last step; of a blueprint, the state it belongs to. `None`, too, if the records of the execution
    /// cannot be read: that may be why it ended.
    pub async fn final_state(&self, tenant: TenantId, job: JobId, steps: u32) -> Result<Option<String>, LookError> {
        if steps == 0 {
            return Ok(None);
        }
        let mut walk = Walk::from_step(&*self.ledger, tenant, job, steps);
        let mut last = None;
        loop {
            let records = match walk.next().await {
                Ok(Some(records)) => records,
                Ok(None) => break,
                Err(StoreError::Broken(_)) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            for record in records {
                if let Record::Step(step) = record {
                    last = Some(step.node);
                }
            }
        }
        // A state that does several things has a node for each of them: `charge.act` belongs to `charge`.
        let state = |node: String| node.split_once('.').map_or(node.clone(), |(state, _)| state.to_owned());
        Ok(last.map(|node| state(node.to_string())))
    }

    pub(super) async fn edits_after(&self, tenant: TenantId, job: JobId, step: u32) -> Result<Vec<Edit>, LookError> {
        let room = self.room(tenant, job, Some(step)).await?;
        let stored = self.stored(&room, tenant, job, Some(step)).await?;
        let bytes = size_of(&stored);
        let work = move || {
            let records = since_snapshot(&stored)?;
            Ok(said_after(&records, step).filter_map(|record| Edit::of(record, step)).collect())
        };
        read_aside(tenant, bytes, work).await
    }

    /// What a run knew after a step, and what the step changed.
    pub async fn context(&self, tenant: TenantId, job: JobId, step: Option<u32>) -> Result<ContextView, LookError> {
        let room = self.room(tenant, job, step).await?;
        let now = self.look_at(&room, tenant, job, step).await?;
        let number = now.flow.steps();
        let stored = self.stored(&room, tenant, job, Some(number)).await?;
        let steps = self.ledger.find_flow(tenant, job).await?.map_or(number, |flow| flow.steps);
        read_aside(tenant, size_of(&stored), move || context_view(&now.flow, stored, steps)).await
    }

    /// Begins a run that goes on from a step of another, with what was known there: also with what people had set and pinned
    /// by hand before the next step was over.
    pub async fn fork(
        &self,
        hands: Hands<'_>,
        tenant: TenantId,
        job: JobId,
        origin: &Origin,
        forking: Forking,
    ) -> Result<Submitted, LookError> {
        let hash = forking.hash(job)?;
        let room = self.room(tenant, job, Some(forking.from_step)).await?;
        let (past, own) = self.past(&room, tenant, job, forking.from_step).await?;
        let record = self.ledger.find_flow(tenant, job).await?.ok_or(LookError::NotFound)?;
        let (definition, program, version) = match &forking.definition {
            Some(other) => {
                let pinned = self.definitions.inline(tenant, &record.workflow, other).await?;
                (pinned.kept, pinned.program, None)
            }
            None => {
                let kept = self.definitions.kept_for_run(own).await?;
                (kept, Arc::clone(past.flow.program()), record.workflow_version)
            }
        };
        let mut flow = past.flow.fork(program).map_err(|e| LookError::Bad(e.to_string()))?;
        let id = hands.intake.mint();
        for (name, value) in forking.variables {
            flow.context_mut()
                .set_variable(&name, value)
                .map_err(|e| LookError::Bad(format!("patch.variables.{name}: {e}")))?;
        }
        flow.context_mut().set_execution("id", json!(id));
        flow.context_mut().set_execution("forked_from", json!({"job_id": job, "step": forking.from_step}));
        if forking.debug {
            let points = past.flow.debug().breakpoints.iter();
            let points = points.map(|(node, when)| Breakpoint { node: node.clone(), when: when.clone() });
            let there: Vec<_> = points.filter(|point| flow.program().by_id.contains_key(&point.node)).collect();
            flow.break_at(there);
            flow.stand_still();
        }
        // Where it begins is its first turn; what it does comes with the next.
        let snapshot = serde_json::to_string(&flow.snapshot()).map_err(|e| StoreError::Broken(e.to_string()))?;
        let node = flow.stands_at().map(|node| Arc::clone(&node.0));
        let standing = FlowStanding { node, ..FlowStanding::of(JobStatus::Running) };
        let steps = (flow.steps(), flow.steps());
        let first = NewTurn {
            snapshot: Some(snapshot.into()),
            again: true,
            remembered: remembered(&flow),
            ..NewTurn::standing(write_records(&[]).into(), steps, standing)
        };
        let flow = NewFlow {
            definition,
            workflow: record.workflow.into(),
            workflow_version: version,
            forked_from: Some((job, forking.from_step)),
            depth: past.about.depth,
            first: Some(first),
        };
        let payload = json!({"forked_from": {"job_id": job, "step": forking.from_step}});
        let request = JobRequest {
            id: Some(id),
            lane: Lane::Default,
            task_type: TaskType::workflow(),
            labels: Labels::default(),
            priority: 0,
            payload: payload.to_string().into(),
            policy: None,
            run_at: None,
            idempotency_key: forking.key,
            external_id: None,
            fleet: None,
            flow: Some((Arc::new(flow), hash)),
        };
        let mut submitted = hands.intake.submit(tenant, origin, vec![request]).await?;
        submitted.pop().ok_or_else(|| LookError::Store(StoreError::Broken("no answer for a new job".to_owned())))
    }
}

/// What a run knew after its last step, of which `stored` has the records.
fn context_view(now: &Flow, stored: StoredFlow, steps: u32) -> Result<ContextView, LookError> {
    let number = now.steps();
    let records = since_snapshot(&stored)?;
    let is_it = |record: &Record| matches!(record, Record::Step(step) if step.n == number);
    let diff = match records.iter().position(is_it) {
        // It begins here, perhaps with what another run knew.
        None => Vec::new(),
        Some(place) => {
            let until = StoredFlow { records: vec![write_records(&records[..place])], ..stored };
            let mut flow = fold(Arc::clone(now.program()), &until, None)?.flow;
            let before = flow.context().to_json();
            flow.apply(&records[place]);
            difference(&before, &flow.context().to_json())
        }
    };
    let edits = said_after(&records, number).filter_map(|record| Edit::of(record, number)).collect();
    let (context, places, debug) = (now.context().to_json(), places(now), now.debug().clone());
    Ok(ContextView { step: number, steps, context, diff, edits, places, debug })
}

/// Where a run is, for people.
pub(super) fn places(flow: &Flow) -> Vec<Value> {
    let mut places: Vec<Value> = flow
        .places()
        .map(|(node, visit, wait)| match wait {
            Some(wait) => {
                let mut place = json!({"node": node, "visit": visit, "waits": wait});
                if let Some((running, ended, items)) = flow.items(node, visit) {
                    place["waits"] = json!({"each": {"running": running, "ended": ended, "items": items}});
                }
                place
            }
            None => json!({"node": node, "visit": visit}),
        })
        .collect();
    // A join has no place of its own while it gathers, but it can be what a run stands still before.
    if let Some((node, visit)) = flow.next().filter(|_| flow.debug().halted.is_some())
        && !flow.places().any(|(other, ..)| other == node)
    {
        places.push(json!({"node": node, "visit": visit}));
    }
    places
}

/// What differs between two contexts, by path; as deep as steps and variables go.
fn difference(before: &Value, after: &Value) -> Vec<Changed> {
    let mut changed = Vec::new();
    for root in ["steps", "variables", "execution"] {
        let (Some(Value::Object(before)), Some(Value::Object(after))) = (before.get(root), after.get(root)) else {
            continue;
        };
        for (name, value) in after {
            let was = before.get(name).cloned().unwrap_or_default();
            if was != *value {
                changed.push(Changed { path: format!("{root}.{name}"), before: was, after: value.clone() });
            }
        }
    }
    changed
}
