//! The turner: gives runs their turn when something came in for them. A reconciler like the others: woken by a bell, it
//! looks and does what there is to do; running it twice, or on two servers, does it once.
//!
//! Each tenant's runs have their turns in a task of their own, one task at a time. So one whose evaluations take long, or whose
//! runs cannot be stored, holds up nobody else: neither by its turns nor by the messages that wait for them.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_model::{ErrorClass, JobId, JobStatus, RunError, TenantId};
use bowline_store::{
    FlowStanding, InboxItem, InboxMessage, InboxPart, NewTurn, StoreError, StoreResult, StoredFlow, TurnAnswer,
    TurnOrder,
};
use bowline_workflow::flow::{Flow, Message, Snapshot, read_records, write_records};
use bowline_workflow::node::Ended;
use bowline_workflow::program::Program;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::asked::Asked;
use super::definitions::DefinitionError;
use super::memory::{About, Kept};
use super::records::{BYTES_HERE, size_of};
use super::start::{TURN_STEPS, Taken};
use super::{Flows, Hands};
use crate::engine::Engine;
use crate::quotas::{QuotaExceeded, Room};
use crate::results;
use crate::tenants::Tenants;

/// Messages of one round.
const ROUND: u32 = 2_000;
/// Of one round in the time it takes to find out what runs do next. Then that is stored, and whoever came meanwhile is heard.
const ROUND_MS: i64 = 100;
/// How often signals that others left are looked for.
const SPREAD_MS: i64 = 200;
/// Bytes of executions that are read for one round of a tenant. One execution always is, whatever its size.
const ROUND_BYTES: u64 = 8 << 20;
/// An execution may end with so much, also when its tenant has no room for it.
const ENDING_BYTES: u64 = 16 * 1_024;
/// Even when nothing rings, look this often: another server may have left something.
const SAFETY_NET: Duration = Duration::from_secs(1);

/// After a failure of the ledger.
const AFTER_FAILURE: Duration = Duration::from_millis(250);

/// What is under way, and how far messages were looked at that others' stand before.
struct Turner {
    engine: Arc<Engine>,
    tenants: Tenants<StoreResult<usize>>,
    after: i64,
}

/// Gives runs their turns until the house closes.
pub async fn turn_forever(engine: Arc<Engine>, stop: CancellationToken) -> anyhow::Result<()> {
    let mut bell = engine.ledger.flow_wake().listen();
    let mut turner = Turner { engine, tenants: Tenants::new(), after: 0 };
    loop {
        bell.forget();
        let began = Instant::now();
        let wait = match turner.start_turns().await {
            Ok(has_started) => turner.tenants.pause(has_started, began.elapsed(), SAFETY_NET),
            Err(error) => {
                tracing::warn!(%error, "cannot advance executions, retrying");
                AFTER_FAILURE
            }
        };
        // While somebody's turns are under way, others are looked for now and then: each look passes over what waits for those.
        let is_idle = turner.tenants.is_idle();
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            (tenant, ended) = turner.tenants.ended(), if !is_idle => turner.note(tenant, ended),
            () = tokio::time::sleep(wait) => {}
            () = bell.rung(), if is_idle => {}
        }
    }
    // What is under way is stored.
    while !turner.tenants.is_idle() {
        turner.tenants.ended().await;
    }
    Ok(())
}

impl Turner {
    /// Starts turns for everybody for whom something came in and nothing is under way. Whether there was anybody.
    async fn start_turns(&mut self) -> StoreResult<bool> {
        let engine = Arc::clone(&self.engine);
        engine.flows.spread_signals().await?;
        if self.tenants.is_full() {
            return Ok(false);
        }
        let except = self.tenants.passed_over();
        let read = |after| engine.ledger.flow_inbox(ROUND, InboxPart::After { id: after, except: except.clone() });
        let inbox = read(0).await?;
        if self.start(inbox.items) {
            return Ok(true);
        }
        // All that was looked at is for those that are passed over. Others may stand behind; the next look continues there.
        let Some(next) = inbox.next else {
            self.after = 0;
            return Ok(false);
        };
        let inbox = read(self.after.max(next)).await?;
        self.after = inbox.next.unwrap_or(0);
        Ok(self.start(inbox.items))
    }

    fn start(&mut self, items: Vec<InboxItem>) -> bool {
        let mut has_started = false;
        for (tenant, items) in by_tenant(items) {
            let engine = Arc::clone(&self.engine);
            has_started |= self.tenants.start(tenant, async move { engine.turn_some_flows(items).await });
        }
        has_started
    }

    fn note(&mut self, tenant: TenantId, ended: Option<StoreResult<usize>>) {
        let pause = match ended {
            // Perhaps not even that a run is given up could be stored.
            Some(Ok(0)) => SAFETY_NET,
            Some(Ok(_)) => return,
            Some(Err(error)) => {
                tracing::warn!(%tenant, %error, "cannot advance executions of a tenant, retrying");
                AFTER_FAILURE
            }
            None => {
                tracing::error!(%tenant, "advancing executions of a tenant failed: an internal error, retrying");
                SAFETY_NET
            }
        };
        self.tenants.rest(tenant, pause);
    }
}

/// What came in for executions of each tenant; who has waited longest comes first.
fn by_tenant(items: Vec<InboxItem>) -> Vec<(TenantId, Vec<InboxItem>)> {
    let mut places: HashMap<TenantId, usize> = HashMap::new();
    let mut all: Vec<(TenantId, Vec<InboxItem>)> = Vec::new();
    for item in items {
        let place = *places.entry(item.tenant).or_insert_with(|| {
            all.push((item.tenant, Vec::new()));
            all.len() - 1
        });
        all[place].1.push(item);
    }
    all
}

/// What came of a round.
#[derive(Debug, Default)]
pub struct Round {
    pub turned: usize,
    /// Jobs that runs no longer want.
    pub unwanted: Vec<(bowline_model::TenantId, JobId)>,
}

impl Flows {
    /// Hears what came in, and gives every run that heard something its turn: one tenant's after the other's.
    pub async fn round(&self, hands: Hands<'_>) -> StoreResult<Round> {
        self.spread_signals().await?;
        let inbox = self.ledger.flow_inbox(ROUND, InboxPart::all()).await?;
        let mut whole = Round::default();
        for (_, items) in by_tenant(inbox.items) {
            let round = self.turns(hands, items).await?;
            whole.turned += round.turned;
            whole.unwanted.extend(round.unwanted);
        }
        Ok(whole)
    }

    /// The same for one run.
    pub async fn round_of(&self, hands: Hands<'_>, flow: i64) -> StoreResult<Round> {
        let inbox = self.ledger.flow_inbox(ROUND, InboxPart::Of(flow)).await?;
        self.turns(hands, inbox.items).await
    }

    /// Gives runs of one tenant their turns, to hear this.
    pub(crate) async fn turns(&self, hands: Hands<'_>, inbox: Vec<InboxItem>) -> StoreResult<Round> {
        if inbox.is_empty() {
            return Ok(Round::default());
        }
        // Whoever has waited longest comes first.
        let mut order: Vec<i64> = Vec::new();
        let mut by_flow: HashMap<i64, Vec<InboxItem>> = HashMap::new();
        for item in inbox {
            by_flow
                .entry(item.flow)
                .or_insert_with(|| {
                    order.push(item.flow);
                    Vec::new()
                })
                .push(item);
        }
        let mut runs: HashMap<i64, Kept> = HashMap::new();
        let mut unknown = Vec::new();
        for flow in &order {
            match self.memory.take(*flow) {
                Some(kept) => drop(runs.insert(*flow, kept)),
                None => unknown.push(*flow),
            }
        }
        // Those that do not fit now are read when these have had their turn.
        let (loaded, unreadable) = self.load(self.within_room(unknown).await?).await?;
        runs.extend(loaded.into_iter().map(|run| (run.about.number, run)));
        let now = self.clock.now();
        for (flow, version, why) in unreadable {
            let heard = by_flow.remove(&flow).unwrap_or_default();
            self.give_up(flow, version, heard.into_iter().map(|item| item.id).collect(), why).await;
        }
        let mut round = Round::default();
        let mut orders = Vec::with_capacity(by_flow.len());
        let mut turned = Vec::with_capacity(by_flow.len());
        for flow in order {
            let (Some(mut run), Some(items)) = (runs.remove(&flow), by_flow.remove(&flow)) else { continue };
            if !orders.is_empty() && self.clock.now().millis_since(now) >= ROUND_MS {
                self.memory.keep(run);
                continue;
            }
            let heard = items.iter().map(|item| item.id).collect();
            let mut messages = Vec::with_capacity(items.len());
            for message in items.into_iter().filter_map(|item| message(item.message)) {
                messages.push(match message {
                    Message::Ended(ended) => Message::Ended(self.told_of_hosts(run.about.tenant, ended).await?),
                    Message::Decided { .. } => self.still_decided(&run.about, message).await?,
                    other => other,
                });
            }
            let (span, tenant) = (run.about.span(), run.about.tenant);
            let full = self.full_for(flow, tenant);
            let taken = match &full {
                Some(full) => Ok(self.stop_for_room(hands, &mut run, messages, full, now)),
                None => self.take_turn(hands, &mut run, messages, TURN_STEPS, now).instrument(span).await,
            };
            match taken {
                Ok(Taken { turn, mut rooms }) => {
                    let ends = turn.standing.status.is_terminal() && turn.bytes() <= ENDING_BYTES;
                    match self.quotas.reserve(tenant, turn.bytes()) {
                        Ok(room) => rooms.push(room),
                        // What came in has happened already, so it is kept.
                        Err(_) if ends || full.is_some() => {
                            rooms.push(self.quotas.reserve_anyway(tenant, turn.bytes()));
                        }
                        // The execution is not as it was any more. It is read again, and then it is stopped.
                        Err(_) => {
                            self.needs_room().insert(flow, turn.bytes());
                            round.turned += 1;
                            continue;
                        }
                    }
                    orders.push(TurnOrder { flow, version: run.version, heard, turn });
                    turned.push((run, rooms));
                }
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => self.give_up(flow, run.version, heard, error.to_string()).await,
            }
        }
        for ((run, _), order) in turned.iter().zip(&orders) {
            round.unwanted.extend(order.turn.cancels.iter().map(|job| (run.about.tenant, *job)));
        }
        let answers = match self.store(&orders).await {
            Err(error @ StoreError::Unknown(_)) => {
                turned.into_iter().flat_map(|(_, rooms)| rooms).for_each(Room::keep);
                return Err(error);
            }
            answered => answered?,
        };
        for ((mut run, rooms), answer) in turned.into_iter().zip(answers) {
            // One that was given up is no reason to look again at once: perhaps not even that could be stored.
            round.turned += usize::from(answer.is_some());
            if answer == Some(TurnAnswer::Stored) {
                run.version += 1;
                rooms.into_iter().for_each(Room::keep);
                self.keep(run);
            }
        }
        Ok(round)
    }

    fn needs_room(&self) -> MutexGuard<'_, HashMap<i64, u64>> {
        self.needs_room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why an execution cannot be advanced whose last advance found no room.
    fn full_for(&self, flow: i64, tenant: TenantId) -> Option<QuotaExceeded> {
        let bytes = self.needs_room().remove(&flow)?;
        self.quotas.has_room(tenant, bytes).err()
    }

    /// Continues signals that not everybody has who waits for them: at once where there are some, and otherwise now and then,
    /// as another server may have left some.
    async fn spread_signals(&self) -> StoreResult<()> {
        let now = self.clock.now().as_micros() / 1_000;
        let was_long_ago = (now - self.spread_at.load(Ordering::Relaxed)).abs() >= SPREAD_MS;
        if self.spreading.swap(false, Ordering::Relaxed) || was_long_ago {
            self.spread_at.store(now, Ordering::Relaxed);
            let more =
                self.ledger.spread_signals().await.inspect_err(|_| self.spreading.store(true, Ordering::Relaxed))?;
            self.spreading.fetch_or(more, Ordering::Relaxed);
        }
        Ok(())
    }

    /// A yes, if what it was said to is still what follows; otherwise the question is put again.
    async fn still_decided(&self, about: &About, decided: Message) -> StoreResult<Message> {
        let Message::Decided { node, approved: true, named, .. } = &decided else { return Ok(decided) };
        if self.named_behind(about.tenant, about.definition, node).await? == *named {
            return Ok(decided);
        }
        tracing::warn!(job.id = %about.job, node = %node, "asking again, what is named behind an approved question has changed");
        Ok(Message::AskAgain)
    }

    /// What an execution hears of a job that ended; of a command, host by host.
    async fn told_of_hosts(&self, tenant: TenantId, ended: Ended) -> StoreResult<Ended> {
        let Some(job) = ended.job else { return Ok(ended) };
        let result = self.with_hosts(tenant, job, ended.result).await?;
        Ok(Ended { result, ..ended })
    }

    /// Stores turns together. Where that is refused because of what one of them says, the others must not suffer: each is
    /// stored by itself, and the one that cannot be is given up, which is no answer.
    async fn store(&self, orders: &[TurnOrder]) -> StoreResult<Vec<Option<TurnAnswer>>> {
        match self.ledger.turn_flows(orders.to_vec()).await {
            Err(StoreError::Broken(_)) => {}
            answered => return Ok(answered?.into_iter().map(Some).collect()),
        }
        let mut answers = Vec::with_capacity(orders.len());
        for order in orders {
            match self.ledger.turn_flows(vec![order.clone()]).await {
                Ok(own) => answers.extend(own.into_iter().map(Some)),
                Err(StoreError::Broken(why)) => {
                    self.give_up(order.flow, order.version, order.heard.clone(), why).await;
                    answers.push(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(answers)
    }

    /// Ends a run that cannot go on, whoever it is that cannot make it: its records, its definition or its next turn.
    async fn give_up(&self, flow: i64, version: u64, heard: Vec<i64>, why: String) {
        tracing::error!(job.number = flow, error = %why, "cannot advance an execution, giving it up");
        let error = Some(RunError::new(ErrorClass::Handler, why));
        let standing = FlowStanding { error, ..FlowStanding::of(JobStatus::Error) };
        let turn = NewTurn { gives_up: true, ..NewTurn::standing(write_records(&[]).into(), (0, 0), standing) };
        if let Err(error) = self.ledger.turn_flows(vec![TurnOrder { flow, version, heard, turn }]).await {
            tracing::error!(job.number = flow, %error, "cannot give up an execution");
        }
    }

    /// As many of these, in order, as are read at a time. One always is.
    async fn within_room(&self, flows: Vec<i64>) -> StoreResult<Vec<i64>> {
        if flows.len() < 2 {
            return Ok(flows);
        }
        let sizes: HashMap<i64, u64> = self.ledger.flow_sizes(flows.clone(), None).await?.into_iter().collect();
        let mut bytes = 0;
        let fits = |flow: &i64| {
            let is_first = bytes == 0;
            bytes += sizes.get(flow).copied().unwrap_or(0).max(1);
            is_first || bytes <= ROUND_BYTES
        };
        Ok(flows.into_iter().take_while(fits).collect())
    }

    /// Reads runs that are not in memory, and says which could not be read: number, version and why.
    async fn load(&self, flows: Vec<i64>) -> StoreResult<(Vec<Kept>, Vec<(i64, u64, String)>)> {
        if flows.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let mut loaded = Vec::with_capacity(flows.len());
        let mut unreadable = Vec::new();
        for stored in self.ledger.load_flows(flows, None).await? {
            let program = match self.definitions.of_run(stored.tenant, stored.definition).await {
                Ok(program) => program,
                Err(DefinitionError::Store(error)) if error.is_transient() => return Err(error),
                Err(error) => {
                    unreadable.push((stored.number, stored.version, error.to_string()));
                    continue;
                }
            };
            let (number, version) = (stored.number, stored.version);
            match fold_for_turn(program, stored).await {
                Ok(run) => loaded.push(run),
                Err(error) => unreadable.push((number, version, error.to_string())),
            }
        }
        Ok((loaded, unreadable))
    }
}

/// Adds up a run that is about to take its turn; a large one on a blocking thread. It does not wait for the share of a tenant that
/// looks at many runs.
async fn fold_for_turn(program: Arc<Program>, stored: StoredFlow) -> StoreResult<Kept> {
    if size_of(&stored) <= BYTES_HERE {
        return fold(program, &stored, None);
    }
    let folded = tokio::task::spawn_blocking(move || fold(program, &stored, None)).await;
    folded.map_err(|error| StoreError::Broken(format!("the records of an execution cannot be read: {error}")))?
}

/// Adds up what is stored of a run: all of it, or what it was after a step.
pub(super) fn fold(program: Arc<Program>, stored: &StoredFlow, until_step: Option<u32>) -> StoreResult<Kept> {
    let broken = |e: String| StoreError::Broken(format!("the records of job {} do not add up: {e}", stored.job));
    let mut flow = match &stored.snapshot {
        Some(text) => {
            let snapshot: Snapshot = serde_json::from_str(text).map_err(|e| broken(e.to_string()))?;
            Flow::restore(program, snapshot).map_err(|e| broken(e.to_string()))?
        }
        None => {
            let mut asked = Asked::of(stored)?;
            let (debug, breakpoints) = (asked.debug, std::mem::take(&mut asked.breakpoints));
            let approved = std::mem::take(&mut asked.approved);
            let mut flow = Flow::new(program, asked.context_of(stored));
            flow.follow_approval(approved);
            if debug {
                flow.step_by_step();
            }
            flow.break_at(breakpoints);
            flow
        }
    };
    'turns: for turn in &stored.records {
        for record in read_records(turn).map_err(|e| broken(e.to_string()))? {
            if until_step.is_some_and(|until| flow.steps() >= until) {
                break 'turns;
            }
            flow.apply(&record);
        }
    }
    let about = About {
        number: stored.number,
        job: stored.job,
        tenant: stored.tenant,
        definition: stored.definition,
        depth: stored.depth,
        actor: Arc::clone(&stored.actor),
        // A fork has it from the run that it goes on from.
        email: flow.context().user().get("email").and_then(Value::as_str).map(Arc::from),
        trace_id: stored.trace_id.clone(),
        correlation_id: stored.correlation_id.clone(),
    };
    Ok(Kept {
        about: Arc::new(about),
        flow,
        version: stored.version,
        since_snapshot: stored.since_snapshot,
        snapshot_size: stored.snapshot.as_ref().map_or(0, String::len),
    })
}

fn message(stored: InboxMessage) -> Option<Message> {
    match stored {
        InboxMessage::Told(text) => match serde_json::from_str(&text) {
            Ok(message) => Some(message),
            Err(error) => {
                tracing::error!(%error, "skipping a message to an execution that cannot be read");
                None
            }
        },
        InboxMessage::Ended { job, status, result, result_bytes, error } => Some(Message::Ended(Ended {
            job: Some(job),
            status,
            result: match result_bytes {
                Some(bytes) => results::reference(job, bytes),
                None => result.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
            },
            error,
        })),
    }
}
