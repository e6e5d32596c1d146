//! The steps of an execution, for people: what each received and gave, where it came from, and where it led.
//!
//! Only what a step gave is stored. What it received follows from the definition and from what the execution knew before it, so
//! it is worked out again: from the last snapshot before the page, or from the beginning if a step of the page was reached
//! before that snapshot.

use std::collections::HashMap;
use std::sync::Arc;

use bowline_model::{JobId, TenantId};
use bowline_store::{StoreError, StoredFlow};
use bowline_workflow::flow::{Details, Record, Step, StepDetail};
use bowline_workflow::program::Program;
use serde_json::Value;

use super::Flows;
use super::look::{Edit, LookError};
use super::records::{Walk, read, read_aside, size_of};
use super::turner::fold;

/// Inputs that are longer as JSON are not shown with their step.
pub const STEP_INPUT_BYTES_MAX: usize = 64 * 1024;
/// Bytes of records that one page of steps is made of, or little more.
const STEPS_BYTES: usize = 8 << 20;
/// Nodes that are listed as skipped; the others are counted.
pub const SKIPPED_MAX: usize = 1_000;

/// A step, for people.
#[derive(Debug, Clone)]
pub struct StepView {
    pub step: Step,
    pub node_type: Option<String>,
    pub input: StepInput,
    /// The nodes that led here: one, or as many as a join gathered.
    pub previous: Vec<String>,
    /// The nodes that it led to.
    pub next: Vec<String>,
}

/// What a node received.
#[derive(Debug, Clone, PartialEq)]
pub enum StepInput {
    Value(Value),
    /// It has so many bytes as JSON, and is not shown.
    TooLarge(usize),
}

impl From<Value> for StepInput {
    fn from(value: Value) -> Self {
        match value.to_string().len() {
            bytes if bytes > STEP_INPUT_BYTES_MAX => Self::TooLarge(bytes),
            _ => Self::Value(value),
        }
    }
}

/// Steps of an execution, in the order in which they ended.
#[derive(Debug, Clone)]
pub struct StepsPage {
    pub steps: Vec<StepView>,
    /// What people set by hand after these steps, and before the first of all.
    pub edits: Vec<Edit>,
    /// Where the next page starts.
    pub next: Option<u32>,
    /// Nodes that an execution that has ended never came to; only with the last page.
    pub skipped: Vec<SkippedNode>,
    /// How many there are of them, also of those that are not listed.
    pub skipped_count: usize,
    /// Who started the execution.
    pub actor: String,
}

/// A node that an execution never came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedNode {
    pub node: String,
    pub node_type: Option<String>,
}

/// The records of a page: from the turn of its first step to its last step.
#[derive(Default)]
struct Page {
    first_turn: Option<String>,
    records: Vec<Record>,
    /// How much was read for them.
    bytes: usize,
    next: Option<u32>,
}

impl Flows {
    /// Steps of an execution, from this one on.
    pub async fn steps(&self, tenant: TenantId, job: JobId, from: u32, limit: u32) -> Result<StepsPage, LookError> {
        let flow = self.ledger.find_flow(tenant, job).await?.ok_or(LookError::NotFound)?;
        // Where it starts: what was said there was said before the first of its steps.
        let first = flow.forked_from.map_or(0, |(_, step)| step);
        let from = from.max(first + 1);
        let page = self.page(tenant, job, from, limit).await?;
        // Each part takes its own room, one after the other.
        let room = self.room(tenant, job, Some(first)).await?;
        let start = self.stored(&room, tenant, job, Some(first)).await?;
        drop(room);
        let program = self.definitions.of_run(tenant, start.definition).await?;
        let mut edits = if from == first + 1 { self.edits_after(tenant, job, first).await? } else { Vec::new() };
        let actor = start.actor.to_string();
        let mut details = match self.details(tenant, job, from, start, &page).await {
            // An execution whose records do not add up was given up. Its steps are shown as they were stored, and so are those
            // of one that is too large to be added up for a reader.
            Err(LookError::Store(StoreError::Broken(_)) | LookError::TooLarge { .. }) => HashMap::new(),
            found => found?,
        };
        let mut steps: Vec<StepView> = Vec::new();
        for record in page.records {
            let last = steps.last().map(|view| view.step.n);
            edits.extend(last.and_then(|last| Edit::of(&record, last)));
            let Record::Step(step) = record else { continue };
            if step.n < from {
                continue;
            }
            let node_type = program.type_of(&step.node).map(ToOwned::to_owned);
            let detail = details.remove(&step.n).flatten();
            let detail = detail.unwrap_or(StepDetail { input: Value::Null, previous: Vec::new(), next: Vec::new() });
            let names = |nodes: Vec<bowline_model::workflow::NodeId>| nodes.iter().map(ToString::to_string).collect();
            let (previous, next) = (names(detail.previous), names(detail.next));
            steps.push(StepView { step, node_type, input: detail.input.into(), previous, next });
        }
        let mut whole = StepsPage { steps, edits, next: page.next, skipped: Vec::new(), skipped_count: 0, actor };
        if page.next.is_none() {
            self.add_skipped(tenant, job, &program, &mut whole).await?;
        }
        Ok(whole)
    }

    /// What was recorded from the turn of a step on, until the page is full.
    async fn page(&self, tenant: TenantId, job: JobId, from: u32, limit: u32) -> Result<Page, LookError> {
        let mut page = Page::default();
        let mut found = 0;
        let mut walk = Walk::from_step(&*self.ledger, tenant, job, from);
        while let Some(turns) = walk.next_turns().await? {
            // A page that is large enough ends where the records were read to.
            if walk.bytes > STEPS_BYTES
                && let Some(last) = page.records.iter().rev().find_map(Record::as_step).filter(|step| step.n >= from)
            {
                page.next = Some(last.n + 1);
                return Ok(page);
            }
            if page.first_turn.is_none() {
                page.first_turn = turns.first().cloned();
            }
            let bytes = turns.iter().map(String::len).sum();
            page.bytes += bytes;
            for record in read_aside(tenant, bytes, move || read(&turns)).await? {
                if let Record::Step(step) = &record
                    && step.n >= from
                {
                    if found == limit {
                        page.next = Some(step.n);
                        return Ok(page);
                    }
                    found += 1;
                }
                page.records.push(record);
            }
        }
        Ok(page)
    }

    /// What the steps of a page received, by their numbers.
    async fn details(
        &self,
        tenant: TenantId,
        job: JobId,
        from: u32,
        start: StoredFlow,
        page: &Page,
    ) -> Result<HashMap<u32, Option<StepDetail>>, LookError> {
        let steps = page.records.iter().filter_map(Record::as_step).filter(|step| step.n >= from);
        let wanted: Vec<_> = steps.map(|step| (step.node.clone(), step.visit)).collect();
        if wanted.is_empty() {
            return Ok(HashMap::new());
        }
        let program = self.definitions.of_run(tenant, start.definition).await?;
        // Read after the page, so that it has every turn before the first one of the page.
        let room = self.room(tenant, job, Some(from - 1)).await?;
        let near = self.stored(&room, tenant, job, Some(from - 1)).await?;
        let is_start = near.snapshot == start.snapshot;
        let (bytes, own, records) = (size_of(&near) + page.bytes, Arc::clone(&program), page.records.clone());
        let (places, first_turn) = (wanted.clone(), page.first_turn.clone());
        let work = move || near_details(own, near, is_start, places, first_turn.as_ref(), &records);
        let details = read_aside(tenant, bytes, work).await?;
        drop(room);
        if details.values().all(Option::is_some) {
            return Ok(details);
        }
        let flow = fold(program, &start, Some(0))?.flow;
        let mut whole = Details::from_start(flow, wanted);
        let mut details = HashMap::new();
        let mut walk = Walk::whole(&*self.ledger, tenant, job);
        let last = page.records.iter().filter_map(Record::as_step).map(|step| step.n).max();
        while let Some(turns) = walk.next_turns().await? {
            let bytes = turns.iter().map(String::len).sum();
            let work = move || {
                let records = read(&turns)?;
                let found: Vec<_> = records.iter().filter_map(|record| whole.apply(record)).collect();
                Ok::<_, StoreError>((whole, found))
            };
            let (again, found) = read_aside(tenant, bytes, work).await?;
            whole = again;
            details.extend(found);
            if last.is_some_and(|last| details.contains_key(&last)) {
                break;
            }
        }
        Ok(details)
    }

    /// Lists what an execution that has ended never came to.
    async fn add_skipped(
        &self,
        tenant: TenantId,
        job: JobId,
        program: &Program,
        page: &mut StepsPage,
    ) -> Result<(), LookError> {
        let found = self.ledger.find_job(tenant, job).await?;
        if !found.is_some_and(|(record, _)| record.state.status.is_terminal()) {
            return Ok(());
        }
        let looked = match self.room(tenant, job, None).await {
            Ok(room) => self.look_at(&room, tenant, job, None).await,
            Err(error) => Err(error),
        };
        let now = match looked {
            Err(LookError::Store(StoreError::Broken(_)) | LookError::TooLarge { .. }) => return Ok(()),
            now => now?,
        };
        for node in now.flow.unreached() {
            page.skipped_count += 1;
            if page.skipped.len() < SKIPPED_MAX {
                let node_type = program.type_of(node).map(ToOwned::to_owned);
                page.skipped.push(SkippedNode { node: node.to_string(), node_type });
            }
        }
        Ok(())
    }
}

/// The details of a page, from the last snapshot before it.
fn near_details(
    program: Arc<Program>,
    near: StoredFlow,
    is_start: bool,
    wanted: Vec<(bowline_model::workflow::NodeId, u32)>,
    first_turn: Option<&String>,
    page: &[Record],
) -> Result<HashMap<u32, Option<StepDetail>>, StoreError> {
    let flow = fold(program, &StoredFlow { records: Vec::new(), ..near.clone() }, None)?.flow;
    let mut details = if is_start { Details::from_start(flow, wanted) } else { Details::from_here(flow, wanted) };
    // The turn of the first step is in both.
    let until = near.records.iter().position(|turn| Some(turn) == first_turn).unwrap_or(near.records.len());
    let before = read(&near.records[..until])?;
    Ok(before.iter().chain(page).filter_map(|record| details.apply(record)).collect())
}
