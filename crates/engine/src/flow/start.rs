//! How a run begins: with its first turn.
//!
//! What a run can do without anybody's help it does before it is stored, and both are stored together. A workflow that only
//! decides and calculates is over when its job is accepted.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bowline_model::blueprint::BlueprintSpec;
use bowline_model::idempotency::RequestHash;
use bowline_model::question::{AskRule, question_hash};
use bowline_model::workflow::{NodeId, WorkflowSpec};
use bowline_model::{JobId, JobStatus, Labels, Lane, ResourceName, TaskType, TenantId, Timestamp};
use bowline_store::{
    FlowStanding, NewFlow, NewJob, NewQuestion, NewTurn, NewWait, Origin, Remembered, StoreError, StoreResult,
    Submitted, WaitKind,
};
use bowline_workflow::expression::Context;
use bowline_workflow::flow::{Breakpoint, Flow, Message, Order, Record, Turn, Turning, Waiting, write_records};
use bowline_workflow::node::Ended;
use serde_json::{Map, Value};
use tracing::Instrument;

use super::asked::Asked;
use super::calls::{NotMade, no_room};
use super::definitions::{Definition, DefinitionError, DefinitionKind, Pinned};
use super::memory::{About, Kept};
use super::named::{Named, hash_of_named};
use super::{Flows, Hands};
use crate::intake::{Intake, JobRequest};
use crate::keyed::Keyed;
use crate::quotas::{QuotaExceeded, Room};
use crate::{aside, evaluations};

/// Steps that are taken before the job is accepted. The rest follows.
const FIRST_STEPS: u32 = 250;
/// Steps of every other turn.
pub(super) const TURN_STEPS: u32 = 1_000;
/// Of one turn in the time it takes; looked at after each so many steps. Others wait meanwhile.
const TURN_MS: i64 = 20;
const LOOK_AFTER_STEPS: u32 = 25;
/// Steps of expressions after which others have their turn, too. Some milliseconds.
const SLICE_WORK: u32 = 20_000;
/// Less is never worth a snapshot.
const SNAPSHOT_MIN: usize = 16 * 1_024;

/// What a definition is called that was written for one run without a name.
pub const INLINE: &str = "inline";

/// Which workflow.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkflowChoice {
    /// One that was stored; its active version unless one is named.
    Named { name: ResourceName, version: Option<u32> },
    /// Written for this one run, and called so.
    Inline { name: String, spec: Box<WorkflowSpec> },
    /// A blueprint instead. The input is its data.
    Blueprint(BlueprintChoice),
}

/// Which blueprint.
#[derive(Debug, Clone, PartialEq)]
pub enum BlueprintChoice {
    /// One that was stored; its active version unless one is named.
    Named { name: ResourceName, version: Option<u32> },
    /// Written for this one run.
    Inline { name: String, spec: Box<BlueprintSpec> },
}

/// What somebody asks for.
#[derive(Debug, Clone)]
pub struct FlowRequest {
    pub workflow: WorkflowChoice,
    pub input: Value,
    /// Stops after each node.
    pub debug: bool,
    pub breakpoints: Vec<Breakpoint>,
    pub lane: Lane,
    pub priority: i16,
    pub run_at: Option<Timestamp>,
    pub idempotency_key: Option<String>,
    pub external_id: Option<String>,
}

/// Why a run did not begin.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    #[error("{path}: {what}")]
    Bad { path: String, what: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl FlowError {
    /// Asking again later may help: nothing is wrong with the request itself.
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) | Self::Definition(DefinitionError::Store(error)) => error.is_transient(),
            Self::Definition(_) | Self::Bad { .. } => false,
        }
    }
}

/// What became of a request, and how the run stands.
#[derive(Debug, Clone)]
pub struct FlowSubmitted {
    pub submitted: Submitted,
    /// How the run ended, if it has.
    pub result: Option<Arc<str>>,
    pub error: Option<bowline_model::RunError>,
}

/// What a request comes to before anything is stored.
#[derive(Debug)]
pub enum Begun {
    /// A new execution. Whoever stores its job tells [`Flows::settle`] what became of it.
    New(Box<(JobRequest, Going)>),
    /// It could not begin now, but the same request was accepted before, or its key belongs to another one.
    Sent(Submitted),
}

/// A turn that is ready to be stored, and the room that its jobs found.
pub(super) struct Taken {
    pub turn: NewTurn,
    pub rooms: Vec<Room>,
}

/// Some steps of a turn, between which others have theirs.
struct Slice {
    about: Arc<About>,
    now: Timestamp,
    expires: bool,
    limit: u32,
}

impl Slice {
    fn take(&self, flow: &mut Flow, messages: Vec<Message>, intake: &Intake) -> Result<Turn, StoreError> {
        let mut mint = || intake.mint();
        // Only what the processor does alone is marked, not the jobs that are made of it. Before it is stored, an
        // execution has no number, and no start comes back to it.
        let subject = || format!("execution/{}", self.about.number);
        let mark = || evaluations::current().enter(self.about.tenant, subject);
        let open = (self.about.number != 0).then(mark).transpose();
        let open = open.map_err(|aside| StoreError::Broken(aside.to_string()))?;
        let Self { now, expires, limit, .. } = *self;
        let turn = flow.turn(messages, &mut Turning { now, expires, mint: &mut mint, limit, work: SLICE_WORK });
        drop(open);
        Ok(turn)
    }

    /// The same on a blocking thread. If it does not come back, the execution is as it is stored.
    async fn take_aside(
        self,
        flow: &mut Flow,
        messages: Vec<Message>,
        intake: &Arc<Intake>,
    ) -> Result<Turn, StoreError> {
        let (tenant, intake) = (self.about.tenant, Arc::clone(intake));
        let nothing = Flow::new(Arc::clone(flow.program()), Context::new(Value::Null, Value::Null, Value::Null));
        let mut moved = std::mem::replace(flow, nothing);
        let work = move || {
            let turn = catch_unwind(AssertUnwindSafe(|| self.take(&mut moved, messages, &intake)));
            (moved, turn)
        };
        let (moved, turn) = aside::run(tenant, work).await;
        *flow = moved;
        turn.unwrap_or_else(|_| Err(StoreError::Broken("evaluating a step failed: an internal error".to_owned())))
    }
}

/// The run itself, to be kept in memory if its job was accepted. Nothing for one that begins later.
#[derive(Debug)]
pub struct Going(Option<Kept>);

impl Flows {
    /// Begins runs, each once. The answers are in the order of the requests.
    pub async fn submit(
        &self,
        hands: Hands<'_>,
        tenant: TenantId,
        origin: &Origin,
        requests: Vec<FlowRequest>,
    ) -> Result<Vec<FlowSubmitted>, FlowError> {
        let mut jobs = Vec::with_capacity(requests.len());
        let mut begun = Vec::with_capacity(requests.len());
        for request in requests {
            begun.push(match self.begin(hands, tenant, origin, request).await? {
                Begun::New(new) => {
                    let (job, going) = *new;
                    jobs.push(job);
                    Ok(going)
                }
                Begun::Sent(submitted) => Err(submitted),
            });
        }
        let stored = if jobs.is_empty() { Vec::new() } else { hands.intake.submit(tenant, origin, jobs).await? };
        let mut stored = stored.into_iter();
        let answers = begun.into_iter().filter_map(|begun| match begun {
            Ok(going) => Some(self.settle(stored.next()?, going)),
            Err(submitted) => Some(FlowSubmitted { submitted, result: None, error: None }),
        });
        Ok(answers.collect())
    }

    /// What became of a run that was begun, now that the ledger has answered for its job.
    pub fn settle(&self, submitted: Submitted, going: Going) -> FlowSubmitted {
        let mut answer = FlowSubmitted { submitted, result: None, error: None };
        if let (Submitted::Accepted { number, .. }, Some(mut kept)) = (&answer.submitted, going.0) {
            match kept.flow.ending() {
                Some(ending) => {
                    answer.result = Some(ending.result.to_string().into());
                    answer.error.clone_from(&ending.error);
                }
                None => {
                    kept.about = Arc::new(About { number: *number, ..(*kept.about).clone() });
                    self.keep(kept);
                }
            }
        }
        answer
    }

    /// A run of a workflow that begins when its job is stored, for whoever stores jobs on their own.
    pub async fn prepare(
        &self,
        tenant: TenantId,
        kind: DefinitionKind,
        workflow: &ResourceName,
        version: Option<u32>,
        input: Value,
    ) -> Result<JobRequest, DefinitionError> {
        let pinned = self.definitions.named(tenant, kind, workflow, version).await?;
        let which = version.map_or_else(|| workflow.to_string(), |version| format!("{workflow}@{version}"));
        let hash = RequestHash::of_parts(&[
            kind.resource().as_str().as_bytes(),
            which.as_bytes(),
            input.to_string().as_bytes(),
        ]);
        let flow = NewFlow {
            definition: pinned.kept.clone(),
            workflow: Arc::clone(&pinned.name),
            workflow_version: pinned.version,
            forked_from: None,
            depth: 0,
            first: None,
        };
        Ok(JobRequest {
            id: None,
            lane: Lane::Default,
            task_type: TaskType::workflow(),
            labels: Labels::default(),
            priority: 0,
            payload: Asked { input, ..Asked::default() }.write().into(),
            policy: None,
            run_at: None,
            idempotency_key: None,
            external_id: None,
            fleet: None,
            flow: Some((Arc::new(flow), hash)),
        })
    }

    /// What became of a request that was sent before, if it has a key. One with its own definition is not looked for: it is
    /// known by what that compiles to.
    pub async fn find_sent(&self, tenant: TenantId, request: &FlowRequest) -> Result<Option<Submitted>, StoreError> {
        match self.keyed(request) {
            Some(keyed) => keyed.find(&*self.ledger, tenant).await,
            None => Ok(None),
        }
    }

    fn keyed(&self, request: &FlowRequest) -> Option<Keyed> {
        let which = which(&request.workflow)?;
        let (key, external_id) = (request.idempotency_key.as_ref(), request.external_id.as_ref());
        Keyed::new(key, external_id, || hash_of(request, &which))
    }

    /// Begins a run: its first turn is taken, and nothing is stored but its definition. Its job can then be stored together
    /// with others.
    pub async fn begin(
        &self,
        hands: Hands<'_>,
        tenant: TenantId,
        origin: &Origin,
        request: FlowRequest,
    ) -> Result<Begun, FlowError> {
        let keyed = self.keyed(&request);
        match (self.begin_new(hands, tenant, origin, request).await, keyed) {
            (Err(error), Some(keyed)) if !error.is_transient() => {
                keyed.find(&*self.ledger, tenant).await?.map(Begun::Sent).ok_or(error)
            }
            (begun, _) => begun,
        }
    }

    async fn begin_new(
        &self,
        hands: Hands<'_>,
        tenant: TenantId,
        origin: &Origin,
        request: FlowRequest,
    ) -> Result<Begun, FlowError> {
        let pinned = match &request.workflow {
            WorkflowChoice::Named { name, version } => {
                self.definitions.named(tenant, DefinitionKind::Workflow, name, *version).await?
            }
            WorkflowChoice::Inline { name, spec } => {
                self.definitions.inline(tenant, name, &Definition::Workflow(spec.clone())).await?
            }
            WorkflowChoice::Blueprint(BlueprintChoice::Named { name, version }) => {
                self.definitions.named(tenant, DefinitionKind::Blueprint, name, *version).await?
            }
            WorkflowChoice::Blueprint(BlueprintChoice::Inline { name, spec }) => {
                self.definitions.inline(tenant, name, &Definition::Blueprint(spec.clone())).await?
            }
        };
        if matches!(request.workflow, WorkflowChoice::Blueprint(_)) {
            bowline_workflow::blueprint::check_data(&request.input)
                .map_err(|what| FlowError::Bad { path: "data".to_owned(), what })?;
        }
        for (n, point) in request.breakpoints.iter().enumerate() {
            let order = Order::Break(point.clone());
            order.check(&pinned.program).map_err(|what| FlowError::Bad { path: format!("breakpoints[{n}]"), what })?;
        }
        let now = self.clock.now();
        let job = hands.intake.mint();
        let later = request.run_at.is_some_and(|at| at > now);
        let hash = if request.idempotency_key.is_none() && request.external_id.is_none() {
            RequestHash::from_bytes([0; 32])
        } else {
            let which = which(&request.workflow).unwrap_or_else(|| inline(&request.workflow, &pinned));
            hash_of(&request, &which)
        };
        let asked = Asked {
            input: request.input,
            email: origin.email.as_deref().map(ToOwned::to_owned),
            debug: request.debug,
            // Nobody can be told of them yet, so they are part of what it begins with.
            breakpoints: if later { request.breakpoints.clone() } else { Vec::new() },
            ..Asked::default()
        };
        let payload = asked.write();
        let mut flow = NewFlow {
            definition: pinned.kept.clone(),
            workflow: Arc::clone(&pinned.name),
            workflow_version: pinned.version,
            forked_from: None,
            depth: 0,
            first: None,
        };
        let mut kept = None;
        if !later {
            let about = About {
                number: 0,
                job,
                tenant,
                definition: pinned.kept.id,
                depth: 0,
                actor: Arc::clone(&origin.actor),
                email: origin.email.clone(),
                trace_id: origin.trace_id.clone(),
                correlation_id: origin.correlation_id.clone(),
            };
            let mut run = Kept {
                flow: fresh(&pinned, asked, &origin.actor, job),
                about: Arc::new(about),
                version: 0,
                since_snapshot: 0,
                snapshot_size: 0,
            };
            let messages = request
                .breakpoints
                .into_iter()
                .map(|point| Message::Steer { order: Order::Break(point), by: origin.actor.to_string(), reason: None })
                .collect();
            let span = run.about.span();
            // Its jobs find room together with it.
            let taken = self.take_turn(hands, &mut run, messages, FIRST_STEPS, now).instrument(span).await?;
            flow.first = Some(taken.turn);
            run.version = 1;
            kept = Some(run);
        }
        let request = JobRequest {
            id: Some(job),
            lane: request.lane,
            task_type: TaskType::workflow(),
            labels: Labels::default(),
            priority: request.priority,
            payload: payload.into(),
            policy: None,
            // What has begun is not for later, even if the ledger's clock is behind ours.
            run_at: request.run_at.filter(|_| kept.is_none()),
            idempotency_key: request.idempotency_key,
            external_id: request.external_id,
            fleet: None,
            flow: Some((Arc::new(flow), hash)),
        };
        Ok(Begun::New(Box::new((request, Going(kept)))))
    }

    /// Takes a run's next turn, with the jobs it begins. A job that cannot be made has failed, and the run goes on with
    /// that.
    ///
    /// What may be much work is done on a blocking thread, within the tenant's share of them. What is little work is done here, and
    /// others on this thread have their turn in between.
    pub(super) async fn take_turn(
        &self,
        hands: Hands<'_>,
        run: &mut Kept,
        mut messages: Vec<Message>,
        limit: u32,
        now: Timestamp,
    ) -> Result<Taken, StoreError> {
        let (before, was_over, began) = (run.flow.steps(), run.flow.ending().is_some(), self.clock.now());
        // While the clock is held, nothing ends by it that somebody waits for.
        let expires = !self.ledger.clock_status().is_held();
        let mut whole = Turn::default();
        let mut children: Vec<NewJob> = Vec::new();
        let mut rooms: Vec<Room> = Vec::new();
        loop {
            let left = limit.saturating_sub(run.flow.steps() - before);
            let some = left.min(LOOK_AFTER_STEPS);
            let slice = Slice { about: Arc::clone(&run.about), now, expires, limit: some };
            let turn = if run.flow.is_light() {
                slice.take(&mut run.flow, messages, hands.intake)?
            } else {
                slice.take_aside(&mut run.flow, messages, hands.intake).await?
            };
            whole.records.extend(turn.records);
            whole.cancels.extend(turn.cancels);
            whole.closed.extend(turn.closed);
            whole.more = turn.more;
            messages = Vec::new();
            for launch in turn.launches {
                let made = if run.about.number == 0 {
                    self.make(hands, &run.about, &launch).await.map(|job| (job, None))
                } else {
                    let made = self.make_within_quota(hands, &run.about, &launch).await;
                    made.map(|(job, room)| (job, Some(room)))
                };
                // What was approved is what runs. Looked at after the job is made, so that nothing changes in between.
                let made = match made {
                    Ok((job, room)) => {
                        let approved = self.check_approved(run, &launch).await;
                        approved.and_then(|approved| Ok((pass_on(job, approved)?, room)))
                    }
                    refused => refused,
                };
                match made {
                    Ok((job, room)) => {
                        children.push(job);
                        rooms.extend(room);
                    }
                    Err(NotMade::Later(error)) => return Err(error),
                    Err(NotMade::NoRoom(error)) => {
                        messages.push(Message::Refused { job: launch.job, call: Box::new(launch.call), error });
                    }
                    Err(NotMade::Failed(error)) => messages.push(Message::Ended(Ended {
                        job: Some(launch.job),
                        status: JobStatus::Failed,
                        result: Value::Null,
                        error: Some(error),
                    })),
                }
            }
            let may_go_on = left > some && self.clock.now().millis_since(began) < TURN_MS;
            if messages.is_empty() && !(whole.more && may_go_on) {
                break;
            }
            tokio::task::yield_now().await;
        }
        // What was begun and given up in one turn was never begun.
        children.retain(|child| !whole.cancels.contains(&child.id));
        let after_end = was_over && whole.records.is_empty();
        let mut named = HashMap::new();
        for node in whole.records.iter().filter_map(asked_at) {
            if !named.contains_key(node) {
                let named_there = self.named_behind(run.about.tenant, run.about.definition, node).await?;
                named.insert(node.clone(), hash_of_named(&named_there));
            }
        }
        let turn = NewTurn { after_end, ..self.stored_form(run, whole, children, before, &named) };
        Ok(Taken { turn, rooms })
    }

    /// Ends a run for whose records its tenant has no room: with what came in, and nothing more.
    pub(super) fn stop_for_room(
        &self,
        hands: Hands<'_>,
        run: &mut Kept,
        messages: Vec<Message>,
        full: &QuotaExceeded,
        now: Timestamp,
    ) -> Taken {
        let (before, was_over) = (run.flow.steps(), run.flow.ending().is_some());
        let expires = !self.ledger.clock_status().is_held();
        let mut mint = || hands.intake.mint();
        let turn = run.flow.stop(
            messages,
            no_room(full),
            &mut Turning { now, expires, mint: &mut mint, limit: 0, work: u32::MAX },
        );
        let after_end = was_over && turn.records.is_empty();
        let turn = NewTurn { after_end, ..self.stored_form(run, turn, Vec::new(), before, &HashMap::new()) };
        Taken { turn, rooms: Vec::new() }
    }

    fn stored_form(
        &self,
        run: &mut Kept,
        turn: Turn,
        children: Vec<NewJob>,
        before: u32,
        named: &HashMap<NodeId, RequestHash>,
    ) -> NewTurn {
        let records = write_records(&turn.records);
        run.since_snapshot += records.len();
        let mut snapshot = None;
        if run.flow.ending().is_none() && run.since_snapshot >= SNAPSHOT_MIN.max(2 * run.snapshot_size) {
            let body = serde_json::to_string(&run.flow.snapshot()).unwrap_or_default();
            run.snapshot_size = body.len();
            run.since_snapshot = 0;
            snapshot = Some(body.into());
        }
        let (opened, closed) = moved_waits(&turn, &run.flow, named);
        let mut logs = Vec::new();
        let mut steered = Vec::new();
        for record in &turn.records {
            match record {
                Record::Step(step) if run.flow.program().type_of(&step.node) == Some("log") => {
                    let said = step.output.get("message").map(|m| m.as_str().map_or_else(|| m.to_string(), Into::into));
                    logs.push((Arc::clone(&step.node.0), said.unwrap_or_default()));
                }
                Record::Steered { order, by, .. } => steered.push((by.clone(), super::steer::word(order))),
                _ => {}
            }
        }
        let (status, paused_for, due_at) = run.flow.standing();
        let ending = run.flow.ending();
        NewTurn {
            records: records.into(),
            steps: (before, run.flow.steps()),
            snapshot,
            standing: FlowStanding {
                status,
                paused_for: paused_for.map(|for_what| for_what.as_str().into()),
                due_at,
                node: run.flow.stands_at().map(|node| Arc::clone(&node.0)),
                result: ending.filter(|e| e.status == JobStatus::Succeeded).map(|e| e.result.to_string().into()),
                error: ending.and_then(|e| e.error.clone()),
            },
            after_end: false,
            gives_up: false,
            opened,
            closed,
            children,
            cancels: turn.cancels,
            again: turn.more,
            logs,
            steered,
            remembered: remembered(&run.flow),
        }
    }

    /// Keeps a run in memory, unless it will not go on for a while.
    pub(super) fn keep(&self, run: Kept) {
        let (status, ..) = run.flow.standing();
        if !status.is_terminal() && status != JobStatus::Paused {
            self.memory.keep(run);
        }
    }
}

/// Signals that an execution remembers, as the ledger counts them.
pub(super) fn remembered(flow: &Flow) -> Remembered {
    let (signals, bytes) = flow.remembered();
    Remembered { signals: signals as u64, bytes: bytes as u64 }
}

/// Waits that somebody else can end: those that begin, or begin anew, and those that are over.
fn moved_waits(turn: &Turn, flow: &Flow, named: &HashMap<NodeId, RequestHash>) -> (Vec<NewWait>, Vec<(Arc<str>, u32)>) {
    let mut opened: HashMap<(Arc<str>, u32), (usize, NewWait)> = HashMap::new();
    let mut seen: Option<Seen> = None;
    for (place, record) in turn.records.iter().enumerate() {
        let Record::Began { node, visit, wait, .. } = record else { continue };
        let (kind, name, key, expires_at, question) = match wait {
            Waiting::Approval { title, expires_at, rule } => {
                // Where nothing was looked up, the question is over already.
                let named = named.get(node).copied().unwrap_or(RequestHash::from_bytes([0; 32]));
                let seen = seen.get_or_insert_with(|| Seen::of(flow));
                let hash = question_hash(seen.asked_hash(node, *visit, title, *rule), named);
                (WaitKind::Approval, title.as_str().into(), None, expires_at, Some(NewQuestion { hash, rule: *rule }))
            }
            Waiting::Event { name, key, expires_at } => {
                (WaitKind::Event, Arc::clone(name), key.clone(), expires_at, None)
            }
            _ => continue,
        };
        let node = Arc::clone(&node.0);
        let wait = NewWait { kind, node, visit: *visit, name, key, expires_at: *expires_at, question };
        // What is asked anew is asked once.
        opened.insert((Arc::clone(&wait.node), *visit), (place, wait));
    }
    // What began and was over in one turn was never seen.
    let mut closed = Vec::new();
    for (node, visit) in &turn.closed {
        opened.remove(&(Arc::clone(&node.0), *visit));
        closed.push((Arc::clone(&node.0), *visit));
    }
    let mut opened: Vec<(usize, NewWait)> = opened.into_values().collect();
    opened.sort_unstable_by_key(|(place, _)| *place);
    (opened.into_iter().map(|(_, wait)| wait).collect(), closed)
}

/// The node that puts a question with this record.
fn asked_at(record: &Record) -> Option<&NodeId> {
    match record {
        Record::Began { node, wait: Waiting::Approval { .. }, .. } => Some(node),
        _ => None,
    }
}

/// What those who are asked can look at, written once for all questions of a turn.
struct Seen {
    execution: String,
    webhook: String,
    variables: String,
    pins: String,
}

impl Seen {
    fn of(flow: &Flow) -> Self {
        let context = flow.context();
        let pins: Map<String, Value> =
            flow.debug().pins.iter().map(|(node, output)| (node.to_string(), output.clone())).collect();
        Self {
            execution: context.execution().to_string(),
            webhook: context.webhook().to_string(),
            variables: Value::Object(context.variables()).to_string(),
            pins: Value::Object(pins).to_string(),
        }
    }

    /// Of what somebody is asked, and of what those who go on from their answer can use: which version of which definition runs,
    /// what it was given, its variables, and the outputs that are pinned.
    fn asked_hash(&self, node: &NodeId, visit: u32, title: &str, rule: AskRule) -> RequestHash {
        RequestHash::of_parts(&[
            b"bowline question 3",
            self.execution.as_bytes(),
            node.as_str().as_bytes(),
            &visit.to_be_bytes(),
            title.as_bytes(),
            &rule.quorum.to_be_bytes(),
            &[u8::from(rule.four_eyes)],
            self.webhook.as_bytes(),
            self.variables.as_bytes(),
            self.pins.as_bytes(),
        ])
    }
}

/// An execution that follows an approval knows what was approved.
fn pass_on(job: NewJob, approved: Named) -> StoreResult<NewJob> {
    if job.flow.is_none() || approved.is_empty() {
        return Ok(job);
    }
    Ok(NewJob { payload: Asked::with_approved(&job.payload, approved)?.into(), ..job })
}

fn fresh(pinned: &Pinned, asked: Asked, actor: &str, job: JobId) -> Flow {
    let debug = asked.debug;
    let context = asked.context(actor, job, &pinned.name, pinned.version);
    let mut flow = Flow::new(Arc::clone(&pinned.program), context);
    if debug {
        flow.step_by_step();
    }
    flow
}

/// Which stored definition is asked for. By name, not by what is active: the same request is the same request after the
/// workflow has changed.
fn which(workflow: &WorkflowChoice) -> Option<Vec<u8>> {
    match workflow {
        WorkflowChoice::Named { name, version } => Some(format!("{name}@{version:?}").into_bytes()),
        WorkflowChoice::Blueprint(BlueprintChoice::Named { name, version }) => {
            Some(format!("blueprint {name}@{version:?}").into_bytes())
        }
        WorkflowChoice::Inline { .. } | WorkflowChoice::Blueprint(BlueprintChoice::Inline { .. }) => None,
    }
}

/// A definition that is part of its request, by what it says: its number in the ledger changes if it was gone for a while.
fn inline(workflow: &WorkflowChoice, pinned: &Pinned) -> Vec<u8> {
    // A name changes what expressions see. Without one, a request has the hash that it always had.
    let name = match workflow {
        WorkflowChoice::Inline { name, .. } | WorkflowChoice::Blueprint(BlueprintChoice::Inline { name, .. })
            if name != INLINE =>
        {
            name.as_str()
        }
        _ => "",
    };
    [b"#".as_slice(), &pinned.kept.hash, name.as_bytes()].concat()
}

/// What was asked for, without the keys.
fn hash_of(request: &FlowRequest, which: &[u8]) -> RequestHash {
    let run_at = request.run_at.map(|at| at.as_micros().to_be_bytes());
    RequestHash::of_parts(&[
        b"workflow",
        which,
        request.input.to_string().as_bytes(),
        &[u8::from(request.debug)],
        request.lane.as_str().as_bytes(),
        &request.priority.to_be_bytes(),
        run_at.as_ref().map_or(&[], |bytes| bytes.as_slice()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_ledger_that_may_answer_later_is_worth_another_request() {
        let unavailable = || StoreError::Unavailable("closing".to_owned());
        let broken = || StoreError::Broken("a statement".to_owned());
        assert!(FlowError::Store(unavailable()).is_transient());
        assert!(FlowError::Definition(DefinitionError::Store(unavailable())).is_transient());
        for error in [
            FlowError::Store(broken()),
            FlowError::Definition(DefinitionError::Store(broken())),
            FlowError::Definition(DefinitionError::NoWorkflow("ship".to_owned())),
            FlowError::Bad { path: "input".to_owned(), what: "is too large".to_owned() },
        ] {
            assert!(!error.is_transient(), "{error}");
        }
    }
}
