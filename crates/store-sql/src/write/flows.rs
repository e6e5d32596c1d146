//! Runs of workflows: a turn is added by whoever was first, together with everything that follows from it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bowline_model::audit::Action;
use bowline_model::event::EventData;
use bowline_model::fleet::{Approval, ApprovalState, Decided, Vote};
use bowline_model::flow::FlowFact;
use bowline_model::idempotency::RequestHash;
use bowline_model::job::{Fact, JobKind, Refused};
use bowline_model::person::Person;
use bowline_model::planted::{self, Mistake};
use bowline_model::question::asks_the_same;
use bowline_model::{EventKind, JobStatus, Lane, TenantId, Timestamp};
use bowline_store::{
    FlowAnswer, FlowOrder, FlowVote, KeptDefinition, NewFlow, NewJob, NewTurn, NewWait, REMEMBERED_MAX, Remembered,
    RetryNeeds, StoreError, StoreResult, TurnAnswer, TurnOrder, WaitKind,
};

use super::Desk;
use super::approvals::person_of;
use super::once::{Known, find_once, keep_once};
use super::submit::insert_children;
use crate::changes::{Changes, Heard, INBOX_ADD, Telling};
use crate::db::{Batch, Col, Db, Sql, Val};
use crate::job_row::{JOB_COLUMNS, JobRow, job_columns};

/// Keeps a definition once, and says what it is called.
pub async fn keep_definition(db: &mut impl Db, tenant: TenantId, hash: &[u8; 32], body: &str) -> StoreResult<i64> {
    let key = [Val::Id(*tenant.as_uuid()), Val::Bytes(hash), Val::Text(body)];
    db.execute(DEFINITION_ADD, &key).await?;
    let found = db.query(DEFINITION_FIND, &key[..2], |row| row.int(0)).await?;
    // It was there, and retention removed it in this very moment.
    found.into_iter().next().ok_or_else(|| StoreError::Conflict("a definition was not kept".to_owned()))
}

/// What the definitions of runs are called, by tenant and hash. They are held, so that retention cannot remove one under a run
/// that begins; one that it has removed before is kept once more.
async fn hold_definitions<'a>(
    db: &mut impl Db,
    opened: &[Opened<'a>],
) -> StoreResult<HashMap<(TenantId, &'a [u8; 32]), i64>> {
    let mut wanted: HashMap<(TenantId, &[u8; 32]), &KeptDefinition> = HashMap::new();
    for run in opened {
        let definition = &run.flow.definition;
        wanted.insert((run.row.tenant, &definition.hash), definition);
    }
    let cols = [
        Col::Int(wanted.values().map(|definition| definition.id).collect()),
        Col::Bytes(wanted.values().map(|definition| definition.hash.as_slice()).collect()),
    ];
    let held = db.query_many(DEFINITION_HOLD, &cols, |row| row.int(0)).await?;
    let mut names = HashMap::with_capacity(wanted.len());
    for ((tenant, hash), definition) in wanted {
        let id = if held.contains(&definition.id) {
            definition.id
        } else {
            keep_definition(db, tenant, hash, &definition.body).await?
        };
        names.insert((tenant, hash), id);
    }
    Ok(names)
}

/// A run that was just accepted, and what it has done already. `row` is its job.
#[derive(Debug)]
pub(super) struct Opened<'a> {
    pub row: JobRow,
    pub lane: Lane,
    pub flow: &'a Arc<NewFlow>,
}

impl Opened<'_> {
    /// Whether it has begun and has not ended.
    fn lives(&self) -> bool {
        match &self.flow.first {
            Some(first) => !first.standing.status.is_terminal(),
            None => self.row.state.status == JobStatus::Running,
        }
    }
}

/// Stores runs with their jobs. What they have done already is done with it.
pub(super) async fn open_flows(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    opened: &[Opened<'_>],
    changes: &mut Changes,
) -> StoreResult<Vec<Heard>> {
    let definitions = hold_definitions(db, opened).await?;
    let named = |o: &Opened<'_>| definitions.get(&(o.row.tenant, &o.flow.definition.hash)).copied();
    let of = |read: fn(&NewFlow) -> Option<i64>| opened.iter().map(|o| read(o.flow)).collect::<Vec<_>>();
    let turned = |o: &&Opened<'_>| o.flow.first.is_some();
    let cols = vec![
        Col::Int(opened.iter().map(|o| o.row.number).collect()),
        Col::Id(opened.iter().map(|o| *o.row.tenant.as_uuid()).collect()),
        Col::Int(opened.iter().map(|o| named(o).unwrap_or(o.flow.definition.id)).collect()),
        Col::Text(opened.iter().map(|o| &*o.flow.workflow).collect()),
        Col::OptInt(of(|flow| flow.workflow_version.map(i64::from))),
        Col::Int(opened.iter().map(|o| i64::from(o.flow.first.is_some())).collect()),
        Col::Int(opened.iter().map(|o| o.flow.first.as_ref().map_or(0, |first| i64::from(first.steps.1))).collect()),
        Col::OptText(opened.iter().map(|o| o.flow.first.as_ref()?.standing.node.as_deref()).collect()),
        Col::OptText(opened.iter().map(|o| o.flow.first.as_ref()?.standing.paused_for.as_deref()).collect()),
        Col::OptId(opened.iter().map(|o| o.flow.forked_from.map(|(job, _)| *job.as_uuid())).collect()),
        Col::OptInt(of(|flow| flow.forked_from.map(|(_, step)| i64::from(step)))),
        Col::Int(opened.iter().map(|o| i64::from(o.flow.depth)).collect()),
        Col::Int(opened.iter().map(|o| o.flow.first.as_ref().map_or(0, size_of)).collect()),
        Col::Int(opened.iter().map(|o| o.flow.first.as_ref().map_or(0, |first| remembered(first).0)).collect()),
        Col::Int(opened.iter().map(|o| o.flow.first.as_ref().map_or(0, |first| remembered(first).1)).collect()),
        Col::Bool(opened.iter().map(Opened::lives).collect()),
    ];
    for waiting in opened.iter().filter(|o| o.flow.first.is_none() && o.row.state.status == JobStatus::Running) {
        changes.go_on(waiting.row.number);
    }
    let begun: Vec<(&JobRow, Lane, u64, &NewTurn)> =
        opened.iter().filter(turned).filter_map(|o| Some((&o.row, o.lane, 0, o.flow.first.as_ref()?))).collect();
    let heard = add_turns(db, desk, &begun, vec![(FLOW_ADD, cols)], changes).await?;
    for fork in opened.iter().filter(|o| o.flow.forked_from.is_some()) {
        inherit_editors(db, fork).await?;
    }
    Ok(heard)
}

/// Adds each turn, unless somebody else was first.
pub async fn turn_flows(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    orders: &[TurnOrder],
) -> StoreResult<(Vec<TurnAnswer>, Vec<Heard>)> {
    let mut numbers: Vec<i64> = orders.iter().map(|order| order.flow).collect();
    numbers.sort_unstable();
    numbers.dedup();
    // The first query holds the runs, so nobody else hears anything for them from then on. Somebody may have before: whoever
    // read a message, and then the run as it was after that message, must not hear it a second time.
    let named: Vec<i64> = orders.iter().flat_map(|order| &order.heard).copied().collect();
    let (found, unheard) = db
        .query_two(
            (FLOWS, &[Col::Int(numbers)]),
            |row| Ok((JobRow::read(row)?, row.int(JOB_COLUMNS)?, row.int(JOB_COLUMNS + 1)?)),
            (INBOX_UNHEARD, &[Col::Int(named)]),
            |row| row.int(0),
        )
        .await?;
    let unheard: HashSet<i64> = unheard.into_iter().collect();
    let mut standing: HashMap<i64, (JobRow, Lane, i64)> = HashMap::with_capacity(found.len());
    for (row, lane, version) in found {
        let lane = Lane::from_code(lane).ok_or_else(|| StoreError::Broken(format!("unknown lane {lane}")))?;
        standing.insert(row.number, (row, lane, version));
    }
    let mut answers = Vec::with_capacity(orders.len());
    let mut fresh: Vec<(&JobRow, Lane, u64, &NewTurn)> = Vec::with_capacity(orders.len());
    let mut heard_ids = Vec::new();
    let mut taken = HashSet::new();
    // The mistake: nobody looks whether somebody else has taken the turn, or heard what it heard.
    let blind = planted::on(Mistake::TurnTwice);
    for order in orders {
        let version = i64::try_from(order.version).unwrap_or(i64::MAX);
        let current = standing.get(&order.flow).filter(|(.., at)| *at == version || blind);
        match current {
            Some((row, lane, at))
                if (blind || order.heard.iter().all(|id| unheard.contains(id))) && taken.insert(order.flow) =>
            {
                let at = u64::try_from(*at).unwrap_or(order.version);
                fresh.push((row, *lane, at, &order.turn));
                heard_ids.extend(&order.heard);
                answers.push(TurnAnswer::Stored);
            }
            _ => answers.push(TurnAnswer::Stale),
        }
    }
    if fresh.is_empty() {
        return Ok((answers, Vec::new()));
    }
    let cols = vec![
        Col::Int(fresh.iter().map(|(row, ..)| row.number).collect()),
        Col::Int(fresh.iter().map(|(_, _, version, _)| i64::try_from(version + 1).unwrap_or(i64::MAX)).collect()),
        Col::Int(fresh.iter().map(|(.., turn)| i64::from(turn.steps.1)).collect()),
        Col::OptText(fresh.iter().map(|(.., turn)| turn.standing.node.as_deref()).collect()),
        Col::OptText(fresh.iter().map(|(.., turn)| turn.standing.paused_for.as_deref()).collect()),
        Col::Int(fresh.iter().map(|(.., turn)| size_of(turn)).collect()),
        Col::Int(fresh.iter().map(|(.., turn)| remembered(turn).0).collect()),
        Col::Int(fresh.iter().map(|(.., turn)| remembered(turn).1).collect()),
        Col::Bool(fresh.iter().map(|(.., turn)| !turn.standing.status.is_terminal()).collect()),
    ];
    let before = vec![(INBOX_REMOVE, vec![Col::Int(heard_ids)]), (FLOW_MOVE, cols)];
    let mut changes = Changes::at(desk.now);
    let mut heard = add_turns(db, desk, &fresh, before, &mut changes).await?;
    heard.push(changes.write(db).await?);
    Ok((answers, heard))
}

/// Bytes that a turn adds to what is stored of its execution.
fn size_of(turn: &NewTurn) -> i64 {
    as_int(turn.bytes())
}

/// Signals that the execution remembers after a turn, and their bytes.
fn remembered(turn: &NewTurn) -> (i64, i64) {
    (as_int(turn.remembered.signals), as_int(turn.remembered.bytes))
}

fn as_int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What turns leave behind: records, waits, jobs, and how the run stands. `batch` is what is to be written before, in the
/// same round trip.
async fn add_turns<'a>(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    turns: &[(&'a JobRow, Lane, u64, &'a NewTurn)],
    mut batch: Batch<'a>,
    changes: &mut Changes,
) -> StoreResult<Vec<Heard>> {
    if turns.is_empty() {
        db.execute_batch(&batch).await?;
        return Ok(Vec::new());
    }
    let number = |version: &u64| i64::try_from(version + 1).unwrap_or(i64::MAX);
    let cols = vec![
        Col::Int(turns.iter().map(|(row, ..)| row.number).collect()),
        Col::Int(turns.iter().map(|(_, _, version, _)| number(version)).collect()),
        Col::Int(turns.iter().map(|(.., turn)| i64::from(turn.steps.0)).collect()),
        Col::Int(turns.iter().map(|(.., turn)| i64::from(turn.steps.1)).collect()),
        Col::At(vec![desk.now; turns.len()]),
        Col::Text(turns.iter().map(|(.., turn)| &*turn.records).collect()),
    ];
    let at = batch.len();
    batch.push((TURN_ADD, cols));
    let snapshots: Vec<_> = turns.iter().filter(|(.., turn)| turn.snapshot.is_some()).collect();
    if !snapshots.is_empty() {
        let cols = vec![
            Col::Int(snapshots.iter().map(|(row, ..)| row.number).collect()),
            Col::Int(snapshots.iter().map(|(_, _, version, _)| number(version)).collect()),
            Col::Int(snapshots.iter().map(|(.., turn)| i64::from(turn.steps.1)).collect()),
            Col::Text(snapshots.iter().map(|(.., turn)| turn.snapshot.as_deref().unwrap_or_default()).collect()),
        ];
        batch.push((SNAPSHOT_ADD, cols));
    }
    move_waits(desk, turns, &mut batch);
    let changed = db.execute_batch(&batch).await?;
    if changed.get(at) != Some(&(turns.len() as u64)) {
        return Err(StoreError::Conflict("somebody else took the same turn".to_owned()));
    }
    let mut children: Vec<(&NewJob, i64)> = Vec::new();
    for (row, lane, _, turn) in turns {
        children.extend(turn.children.iter().map(|child| (child, row.number)));
        if turn.again {
            changes.go_on(row.number);
        }
        for (node, message) in &turn.logs {
            let data =
                EventData { node: Some(node.to_string()), reason: Some(message.clone()), ..EventData::default() };
            changes.tell(row.tenant, Some(row.number), None, EventKind::FlowLogged, data);
        }
        for (by, what) in &turn.steered {
            let data = EventData { by: Some(by.clone()), reason: Some(what.clone()), ..EventData::default() };
            changes.tell(row.tenant, Some(row.number), None, EventKind::FlowSteered, data);
        }
        if turn.after_end {
            continue;
        }
        let stands = &turn.standing;
        let waits_anew = !turn.opened.is_empty();
        let fact = FlowFact::Turned { status: stands.status, due_at: stands.due_at, waits_anew };
        // The node that the run's own event names; waits elsewhere are told one by one.
        let mut named = None;
        match row.state.on_flow(fact, desk.now) {
            Ok(step) => {
                named = stands.node.as_deref().filter(|_| step.event == EventKind::FlowPaused);
                let data = EventData {
                    steps: Some(turn.steps.1),
                    node: stands.node.as_ref().map(ToString::to_string),
                    reason: stands.paused_for.as_ref().map(ToString::to_string),
                    ..EventData::default()
                };
                let telling = Telling { data, error: stands.error.clone(), result: stands.result.clone(), fence: None };
                changes.advance(row, *lane, step, telling);
            }
            Err(Refused::Unchanged(_)) => {}
            Err(refused) => return Err(StoreError::Broken(format!("job #{}: {refused}", row.number))),
        }
        if stands.status.is_terminal() {
            continue;
        }
        for wait in turn.opened.iter().filter(|wait| named != Some(&*wait.node)) {
            let data = EventData {
                node: Some(wait.node.to_string()),
                reason: Some(wait.kind.as_str().to_owned()),
                due_at: wait.expires_at,
                ..EventData::default()
            };
            changes.tell(row.tenant, Some(row.number), None, EventKind::FlowAwaits, data);
        }
    }
    let mut heard = insert_children(db, desk, &children).await?;
    let unwanted: Vec<(uuid::Uuid, uuid::Uuid)> = turns
        .iter()
        .flat_map(|(row, _, _, turn)| turn.cancels.iter().map(|job| (*row.tenant.as_uuid(), *job.as_uuid())))
        .collect();
    if !unwanted.is_empty() {
        let (tenants, ids) = unwanted.into_iter().unzip();
        heard.push(cancel_children(db, desk, CHILDREN, &[Col::Id(tenants), Col::Id(ids)]).await?);
    }
    let given_up: Vec<i64> = turns.iter().filter(|(.., turn)| turn.gives_up).map(|(row, ..)| row.number).collect();
    if !given_up.is_empty() {
        heard.push(cancel_children(db, desk, ALL_CHILDREN, &[Col::Int(given_up)]).await?);
    }
    Ok(heard)
}

fn move_waits<'a>(desk: &Desk<'_>, turns: &[(&'a JobRow, Lane, u64, &'a NewTurn)], batch: &mut Batch<'a>) {
    let closed: Vec<(i64, &str, u32)> = turns
        .iter()
        .flat_map(|(row, _, _, turn)| turn.closed.iter().map(|(node, visit)| (row.number, &**node, *visit)))
        .collect();
    let given_up: Vec<i64> = turns.iter().filter(|(.., turn)| turn.gives_up).map(|(row, ..)| row.number).collect();
    batch.push((WAITS_REMOVE, vec![Col::Int(given_up)]));
    if !closed.is_empty() {
        let cols = vec![
            Col::Int(closed.iter().map(|c| c.0).collect()),
            Col::Text(closed.iter().map(|c| c.1).collect()),
            Col::Int(closed.iter().map(|c| i64::from(c.2)).collect()),
        ];
        batch.push((WAIT_REMOVE, cols));
    }
    let opened: Vec<_> =
        turns.iter().flat_map(|(row, _, _, turn)| turn.opened.iter().map(move |wait| (*row, wait))).collect();
    if opened.is_empty() {
        return;
    }
    let cols = vec![
        Col::Int(opened.iter().map(|(row, _)| row.number).collect()),
        Col::Text(opened.iter().map(|(_, wait)| &*wait.node).collect()),
        Col::Int(opened.iter().map(|(_, wait)| i64::from(wait.visit)).collect()),
        Col::Id(opened.iter().map(|(row, _)| *row.tenant.as_uuid()).collect()),
        Col::Int(opened.iter().map(|(_, wait)| wait.kind.code()).collect()),
        Col::Text(opened.iter().map(|(_, wait)| &*wait.name).collect()),
        Col::OptText(opened.iter().map(|(_, wait)| wait.key.as_deref()).collect()),
        Col::OptAt(opened.iter().map(|(_, wait)| wait.expires_at).collect()),
        Col::At(vec![desk.now; opened.len()]),
        Col::Bytes(opened.iter().map(|(_, wait)| hash_of(wait)).collect()),
        Col::Int(opened.iter().map(|(_, wait)| i64::from(wait.question.map_or(1, |q| q.rule.quorum))).collect()),
        Col::Bool(opened.iter().map(|(_, wait)| wait.question.is_some_and(|q| q.rule.four_eyes)).collect()),
    ];
    batch.push((WAIT_ADD, cols));
}

/// Jobs that a run began and no longer wants.
async fn cancel_children(db: &mut impl Db, desk: &Desk<'_>, which: Sql, cols: &[Col<'_>]) -> StoreResult<Heard> {
    let found = db.query_many(which, cols, |row| Ok((JobRow::read(row)?, row.int(JOB_COLUMNS)?))).await?;
    let mut changes = Changes::at(desk.now);
    for (job, lane) in found {
        if job.state.kind == JobKind::Workflow && planted::on(Mistake::ChildForgotten) {
            continue;
        }
        let lane = Lane::from_code(lane).ok_or_else(|| StoreError::Broken(format!("unknown lane {lane}")))?;
        let step = match job.state.kind {
            JobKind::Command => job.state.on_command(bowline_model::fleet::CommandFact::CancelRequested, desk.now),
            JobKind::Workflow => job.state.on_flow(FlowFact::CancelRequested, desk.now),
            JobKind::Task | JobKind::Unit(_) => job.state.on(&Fact::CancelRequested, &job.policy, desk.now, 0.0),
        };
        // Whoever is over stays as it is.
        if let Ok(step) = step {
            let reason = Some("the workflow no longer wants it".to_owned());
            let data = EventData { reason, ..EventData::default() };
            changes.advance(&job, lane, step, Telling { data, ..Telling::default() });
        }
    }
    changes.write(db).await
}

/// Somebody says something to a run.
pub async fn steer_flow(db: &mut impl Db, desk: &Desk<'_>, order: &FlowOrder) -> StoreResult<(FlowAnswer, Heard)> {
    let key = [Val::Id(*order.tenant.as_uuid()), Val::Id(*order.job.as_uuid())];
    let found = db.query(FLOW_OF_JOB, &key, |row| Ok((row.int(0)?, row.int(1)?))).await?;
    let Some((number, status)) = found.into_iter().next() else {
        return Ok((FlowAnswer::NotFound, Heard::default()));
    };
    let status = crate::job_row::status_of(status)?;
    // Asked again, it is answered as before, also when the run is over meanwhile.
    let what = if order.action == Action::WorkflowSteer { "steer" } else { "signal" };
    let operation = format!("{what}/{}", order.job);
    match find_once(db, order.tenant, &operation, order.once.as_ref()).await? {
        None => {}
        Some(Known::Answered(_)) => return Ok((FlowAnswer::Replayed, Heard::default())),
        Some(Known::Conflict) => return Ok((FlowAnswer::KeyConflict, Heard::default())),
    }
    if status.is_terminal() {
        return Ok((FlowAnswer::Finished(status), Heard::default()));
    }
    // What ends a wait is bounded by the waits, and is always taken.
    if order.ends.is_none()
        && let Some(full) = room_left(db, number, &order.message).await?
    {
        return Ok((FlowAnswer::Full(full), Heard::default()));
    }
    if let Some(change) = &order.change {
        // The job is locked: what is read here is what the change would meet.
        let stands = consent_of(db, number).await?;
        if stands.decisions != i64::from(change.decisions)
            || !db.query(DECIDED, &[Val::Int(number)], |_| Ok(())).await?.is_empty()
        {
            return Ok((FlowAnswer::DecisionAhead, Heard::default()));
        }
        if stands.strict {
            return Ok((FlowAnswer::Approved, Heard::default()));
        }
        add_editor(db, number, order.by.person().also(&*order.by.name)).await?;
        // Nobody says yes to what is about to change. The run puts its questions again when it has heard this.
        db.execute(WITHDRAW, &[Val::Int(number), Val::Int(WaitKind::Approval.code())]).await?;
    }
    let mut given = None;
    if let (Some((node, visit)), Some(vote)) = (&order.ends, &order.vote) {
        match count_vote(db, desk, order, number, (node, *visit), vote).await? {
            Counted::Answered(answer, heard) => return Ok((answer, heard)),
            Counted::Given { strict, quorum } => given = Some((strict, quorum)),
            Counted::Ended => {}
        }
    }
    if let Some((node, visit)) = &order.ends {
        // While the clock is held, no wait is over by it.
        let over_by = if desk.clock.is_held() { Timestamp::default() } else { desk.now };
        let wait = [Val::Int(number), Val::Text(node), Val::Int(i64::from(*visit)), Val::At(over_by)];
        if status == JobStatus::Canceling || db.execute(WAIT_END, &wait).await? == 0 {
            return Ok((FlowAnswer::NobodyWaits, Heard::default()));
        }
        // Somebody may be about to store a turn that ends the wait in another way. It must hear this before.
        db.execute(FLOW_OUTDATE, &wait[..1]).await?;
        if let Some((strict, quorum)) = given {
            db.execute(GIVEN, &[Val::Int(number), Val::Bool(strict), Val::Int(quorum.into())]).await?;
        }
    }
    tell(db, &[number], &order.message).await?;
    keep_once(db, desk, order.tenant, &operation, order.once.as_ref(), "").await?;
    Ok((FlowAnswer::Taken, Heard { flows: true, ..Heard::default() }))
}

/// What an execution has waiting, if this message is too much on top of it.
async fn room_left(db: &mut impl Db, number: i64, message: &str) -> StoreResult<Option<Remembered>> {
    let found = db.query(WAITING_FOR, &[Val::Int(number)], |row| Ok((row.int(0)?, row.int(1)?))).await?;
    let Some((signals, bytes)) = found.into_iter().next() else { return Ok(None) };
    let has = Remembered { signals: signals.cast_unsigned(), bytes: bytes.cast_unsigned() };
    let too_many = has.signals >= REMEMBERED_MAX.signals;
    let too_much = has.signals > 0 && has.bytes + message.len() as u64 > REMEMBERED_MAX.bytes;
    Ok((too_many || too_much).then_some(has))
}

fn hash_of(wait: &NewWait) -> &[u8] {
    wait.question.as_ref().map_or(&[], |question| question.hash.as_bytes().as_slice())
}

/// What a vote comes to.
enum Counted {
    /// The question stays open, or the vote does not count; this is what the voter is answered.
    Answered(FlowAnswer, Heard),
    /// The approval is given. `strict`: by people who could not have given it alone. `quorum`: how many it took.
    Given { strict: bool, quorum: u32 },
    /// The question is over in another way.
    Ended,
}

impl Counted {
    fn answered(answer: FlowAnswer) -> Self {
        Self::Answered(answer, Heard::default())
    }
}

/// What was decided about an execution.
struct Consent {
    decisions: i64,
    strict: bool,
}

/// What was decided about an execution itself, and whether that or an approval of one that it was started by is strict.
async fn consent_of(db: &mut impl Db, number: i64) -> StoreResult<Consent> {
    let (mut consent, mut next) = (Consent { decisions: 0, strict: false }, Some(number));
    while let Some(one) = next {
        let found = db.query(CONSENT, &[Val::Int(one)], |row| Ok((row.int(0)?, row.bool(1)?, row.opt_int(2)?))).await?;
        let Some((decisions, strict, parent)) = found.into_iter().next() else { break };
        if one == number {
            consent.decisions = decisions;
        }
        consent.strict |= strict;
        // Parents were there before their children.
        next = parent.filter(|parent| *parent < one);
    }
    Ok(consent)
}

/// Who decided what an execution does, apart from the person who started it.
#[derive(Default)]
struct Editors {
    people: Vec<Person>,
    parent: Option<i64>,
}

async fn editors_of(db: &mut impl Db, number: i64) -> StoreResult<Editors> {
    let found = db.query(EDITORS, &[Val::Int(number)], |row| Ok((row.text(0)?, row.opt_int(1)?))).await?;
    let Some((people, parent)) = found.into_iter().next() else { return Ok(Editors::default()) };
    // Parents were there before their children.
    Ok(Editors { people: Person::list(&people), parent: parent.filter(|parent| *parent < number) })
}

/// Notes who changed an execution: with it, and with those that it was started by, because they go on with what it gives.
async fn add_editor(db: &mut impl Db, number: i64, person: Person) -> StoreResult<()> {
    let mut next = Some(number);
    while let Some(one) = next {
        let Editors { mut people, parent } = editors_of(db, one).await?;
        if !people.contains(&person) {
            people.push(person.clone());
            db.execute(EDITED, &[Val::Int(one), Val::Text(&Person::write_list(&people))]).await?;
        }
        next = parent;
    }
    Ok(())
}

/// Everybody who changed an execution, or one that it was started by.
async fn all_editors(db: &mut impl Db, number: i64) -> StoreResult<Vec<Person>> {
    let (mut all, mut next) = (Vec::new(), Some(number));
    while let Some(one) = next {
        let Editors { people, parent } = editors_of(db, one).await?;
        all.extend(people);
        next = parent;
    }
    Ok(all)
}

/// A fork continues with the input of another execution and with what was changed there.
async fn inherit_editors(db: &mut impl Db, fork: &Opened<'_>) -> StoreResult<()> {
    let Some((source, _)) = fork.flow.forked_from else { return Ok(()) };
    let key = [Val::Id(*fork.row.tenant.as_uuid()), Val::Id(*source.as_uuid())];
    let found = db.query(FORKED, &key, |row| Ok((row.int(0)?, row.text(1)?, row.opt_text(2)?))).await?;
    let Some((number, actor, payload)) = found.into_iter().next() else { return Ok(()) };
    let mut people = all_editors(db, number).await?;
    people.push(person_of(db, &actor, &email_in(payload.as_deref())).await?);
    db.execute(EDITED, &[Val::Int(fork.row.number), Val::Text(&Person::write_list(&people))]).await.map(drop)
}

/// Why this person cannot have an execution tried again, if they cannot. What follows an approval in it, or in one that it was
/// started by, happens again then; so it is approved again, by somebody who could have approved it.
pub async fn retry_needs(db: &mut impl Db, number: i64, by: &Person) -> StoreResult<Option<RetryNeeds>> {
    let (mut strict, mut quorum, mut next) = (false, 1, Some(number));
    while let Some(one) = next {
        let read = |row: &dyn crate::db::Row| Ok((row.bool(0)?, row.int(1)?, row.opt_int(2)?));
        let Some((is_strict, people, parent)) = db.query(GIVEN_IN, &[Val::Int(one)], read).await?.into_iter().next()
        else {
            break;
        };
        strict |= is_strict;
        quorum = quorum.max(crate::job_row::count(people));
        next = parent.filter(|parent| *parent < one);
    }
    if quorum > 1 {
        return Ok(Some(RetryNeeds::People(quorum)));
    }
    if !strict {
        return Ok(None);
    }
    let asked = db.query(ASKED, &[Val::Int(number)], |row| Ok((row.text(0)?, row.opt_text(1)?))).await?;
    let (actor, payload) = asked.into_iter().next().unwrap_or_default();
    let mut people = all_editors(db, number).await?;
    people.push(person_of(db, &actor, &email_in(payload.as_deref())).await?);
    Ok(people.iter().any(|person| person.is_same(by)).then_some(RetryNeeds::OtherPerson))
}

/// Counts a vote on a question.
async fn count_vote(
    db: &mut impl Db,
    desk: &Desk<'_>,
    order: &FlowOrder,
    number: i64,
    (node, visit): (&str, u32),
    vote: &FlowVote,
) -> StoreResult<Counted> {
    let key = [Val::Int(number), Val::Text(node), Val::Int(i64::from(visit))];
    let found = db
        .query(QUESTION, &key, |row| {
            let hash = row.bytes(0)?.try_into().unwrap_or([0; 32]);
            Ok((RequestHash::from_bytes(hash), row.int(1)?, row.bool(2)?, row.text(3)?, row.bool(4)?))
        })
        .await?;
    // Whoever comes too late is told so by the end of the wait.
    let Some((hash, quorum, four_eyes, yes, withdrawn)) = found.into_iter().next() else { return Ok(Counted::Ended) };
    if withdrawn {
        return Ok(Counted::answered(FlowAnswer::Withdrawn));
    }
    let asked = db.query(ASKED, &key[..1], |row| Ok((row.text(0)?, row.opt_text(1)?))).await?;
    let (actor, payload) = asked.into_iter().next().unwrap_or_default();
    let by = order.by.person().also(&*order.by.name);
    let mut people = Person::list(&yes);
    let approval = Approval {
        state: ApprovalState::Required,
        hash,
        quorum: crate::job_row::count(quorum),
        four_eyes,
        requester: person_of(db, &actor, &email_in(payload.as_deref())).await?,
        editors: all_editors(db, number).await?,
        yes: people.clone(),
    };
    let vote = Vote { by: by.clone(), yes: vote.yes, seen: vote.seen, current: vote.current };
    let missing = match approval.on(&vote) {
        Ok(Decided::Approved) => {
            let quorum = approval.quorum;
            return Ok(Counted::Given { strict: four_eyes || quorum > 1, quorum });
        }
        Ok(Decided::Rejected) => return Ok(Counted::Ended),
        Ok(Decided::Superseded) => {
            let mut heard = Heard::default();
            // The same question, and the names behind it mean something else by now: it is put again.
            if asks_the_same(hash, vote.current) {
                db.execute(WITHDRAW, &[Val::Int(number), Val::Int(WaitKind::Approval.code())]).await?;
                tell(db, &[number], ASK_AGAIN).await?;
                heard.flows = true;
            }
            return Ok(Counted::Answered(FlowAnswer::Withdrawn, heard));
        }
        Ok(Decided::Noted { missing }) => missing,
        Err(refused) => return Ok(Counted::answered(FlowAnswer::Refused(refused))),
    };
    people.push(by);
    let people = Person::write_list(&people);
    db.execute(NOTE, &[key[0], key[1], key[2], Val::Text(&people)]).await?;
    let data = EventData {
        by: Some(order.by.to_string()),
        reason: order.reason.clone(),
        node: Some(node.to_owned()),
        ..EventData::default()
    };
    let mut changes = Changes::at(desk.now);
    changes.tell(order.tenant, Some(number), None, EventKind::JobApprovalNoted, data);
    Ok(Counted::Answered(FlowAnswer::Noted { missing }, changes.write(db).await?))
}

/// Whoever began the run, as far as its own payload says it.
fn email_in(payload: Option<&str>) -> String {
    #[derive(serde::Deserialize)]
    struct Begun {
        #[serde(default)]
        email: Option<String>,
    }
    let begun: Option<Begun> = payload.and_then(|text| serde_json::from_str(text).ok());
    Person::named(begun.and_then(|begun| begun.email).as_deref().map(Person::mail)).to_text()
}

async fn tell(db: &mut impl Db, flows: &[i64], message: &str) -> StoreResult<()> {
    if flows.is_empty() {
        return Ok(());
    }
    let cols = [
        Col::Int(flows.to_vec()),
        Col::OptInt(vec![None; flows.len()]),
        Col::OptText(vec![Some(message); flows.len()]),
    ];
    db.execute_many(INBOX_ADD, &cols).await.map(drop)
}

/// The message that has an execution put its questions again.
const ASK_AGAIN: &str = r#"{"is":"ask_again"}"#;
/// Messages that wait for an execution, and signals that it remembers: how many, and how many bytes.
const WAITING_FOR: Sql = Sql::Each {
    sqlite: "select f.remembered + coalesce(sum(i.id is not null and i.child is null), 0),
                    f.remembered_bytes + coalesce(sum(coalesce(octet_length(i.body), octet_length(s.body))), 0)
             from flow f left join flow_inbox i on i.flow = f.number left join flow_signal s on s.id = i.signal
             where f.number = ?1 group by f.number",
    postgres: "select f.remembered + count(*) filter (where i.id is not null and i.child is null),
                      (f.remembered_bytes + coalesce(sum(coalesce(octet_length(i.body), octet_length(s.body))), 0))::bigint
               from flow f left join flow_inbox i on i.flow = f.number left join flow_signal s on s.id = i.signal
               where f.number = $1 group by f.number",
};
const DEFINITION_ADD: Sql = Sql::Same(
    "insert into flow_definition (tenant, hash, body) values ($1, $2, $3) on conflict (tenant, hash) do nothing",
);
const DEFINITION_FIND: Sql = Sql::Each {
    sqlite: "select id from flow_definition where tenant = ?1 and hash = ?2",
    postgres: "select id from flow_definition where tenant = $1 and hash = $2 for key share",
};
/// By hash as well: a name alone would also fit what another ledger calls so.
const DEFINITION_HOLD: Sql = Sql::Each {
    sqlite: "select id from flow_definition where id = ?1 and hash = ?2",
    postgres: "select d.id from flow_definition d join unnest($1::bigint[], $2::bytea[]) as k (id, hash)
                 on d.id = k.id and d.hash = k.hash order by d.id for key share of d",
};
const FLOW_ADD: Sql = Sql::Each {
    sqlite:
        "insert into flow (number, tenant, definition, workflow, workflow_version, version, steps, node, paused_for,
                               forked_from, forked_step, depth, bytes, remembered, remembered_bytes, live)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
    postgres:
        "insert into flow (number, tenant, definition, workflow, workflow_version, version, steps, node, paused_for,
                                 forked_from, forked_step, depth, bytes, remembered, remembered_bytes, live)
               select * from unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[],
                                    $7::bigint[], $8::text[], $9::text[], $10::uuid[], $11::bigint[], $12::bigint[],
                                    $13::bigint[], $14::bigint[], $15::bigint[], $16::boolean[])",
};
const FLOWS: Sql = Sql::Each {
    sqlite: concat!(
        "select ",
        job_columns!(),
        ", c.lane, f.version from flow f join job j on j.number = f.number join channel c on c.id = j.channel
         where f.number = ?1"
    ),
    postgres: concat!(
        "select ",
        job_columns!(),
        ", c.lane, f.version from flow f join job j on j.number = f.number join channel c on c.id = j.channel
         where f.number = any ($1::bigint[]) order by f.number for update of j, f"
    ),
};
const FLOW_MOVE: Sql = Sql::Each {
    sqlite: "update flow set version = ?2, steps = max(steps, ?3), node = ?4, paused_for = ?5, bytes = bytes + ?6,
                            remembered = ?7, remembered_bytes = ?8, live = ?9 where number = ?1",
    postgres: "update flow f set version = k.version, steps = greatest(f.steps, k.steps), node = k.node,
                      paused_for = k.paused_for, bytes = f.bytes + k.bytes, remembered = k.remembered,
                      remembered_bytes = k.remembered_bytes, live = k.live
               from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[],
                           $8::bigint[], $9::boolean[])
                 as k (number, version, steps, node, paused_for, bytes, remembered, remembered_bytes, live)
               where f.number = k.number",
};
const TURN_ADD: Sql = Sql::Each {
    sqlite: "insert into flow_turn (flow, turn, first_step, last_step, at, records) values (?1, ?2, ?3, ?4, ?5, ?6)
             on conflict do nothing",
    postgres: "insert into flow_turn (flow, turn, first_step, last_step, at, records)
               select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::timestamptz[], $6::text[])
               on conflict do nothing",
};
const SNAPSHOT_ADD: Sql = Sql::Each {
    sqlite: "insert into flow_snapshot (flow, turn, steps, body) values (?1, ?2, ?3, ?4)",
    postgres: "insert into flow_snapshot (flow, turn, steps, body)
               select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[])",
};
const INBOX_UNHEARD: Sql = Sql::Each {
    sqlite: "select id from flow_inbox where id = ?1",
    postgres: "select id from flow_inbox where id = any ($1::bigint[])",
};
const INBOX_REMOVE: Sql = Sql::Each {
    sqlite: "delete from flow_inbox where id = ?1",
    postgres: "delete from flow_inbox where id = any ($1::bigint[])",
};
const WAIT_ADD: Sql = Sql::Each {
    sqlite:
        "insert into flow_wait (flow, node, visit, tenant, kind, name, key, expires_at, since, hash, quorum, four_eyes)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
             on conflict (flow, node, visit) do update set name = excluded.name, hash = excluded.hash,
               quorum = excluded.quorum, four_eyes = excluded.four_eyes, yes = '[]', withdrawn = 0",
    postgres:
        "insert into flow_wait (flow, node, visit, tenant, kind, name, key, expires_at, since, hash, quorum, four_eyes)
               select * from unnest($1::bigint[], $2::text[], $3::bigint[], $4::uuid[], $5::bigint[], $6::text[],
                                    $7::text[], $8::timestamptz[], $9::timestamptz[], $10::bytea[], $11::bigint[],
                                    $12::boolean[])
               on conflict (flow, node, visit) do update set name = excluded.name, hash = excluded.hash,
                 quorum = excluded.quorum, four_eyes = excluded.four_eyes, yes = '[]', withdrawn = false",
};
const QUESTION: Sql = Sql::Same(
    "select hash, quorum, four_eyes, yes, withdrawn from flow_wait
     where flow = $1 and node = $2 and visit = $3 and length(hash) = 32",
);
const NOTE: Sql = Sql::Same("update flow_wait set yes = $4 where flow = $1 and node = $2 and visit = $3");
const CONSENT: Sql =
    Sql::Same("select f.decisions, f.strict, j.flow from flow f join job j on j.number = f.number where f.number = $1");
const EDITORS: Sql =
    Sql::Same("select f.editors, j.flow from flow f join job j on j.number = f.number where f.number = $1");
const EDITED: Sql = Sql::Same("update flow set editors = $2 where number = $1");
const FORKED: Sql = Sql::Same(
    "select j.number, j.actor, j.payload from job j join flow f on f.number = j.number
     where j.tenant = $1 and j.id = $2 and j.parent is null",
);
const GIVEN_IN: Sql =
    Sql::Same("select f.strict, f.quorum, j.flow from flow f join job j on j.number = f.number where f.number = $1");
const GIVEN: Sql = Sql::Each {
    sqlite: "update flow set decisions = decisions + 1, strict = max(strict, ?2), quorum = max(quorum, ?3) where number = ?1",
    postgres: "update flow set decisions = decisions + 1, strict = strict or $2, quorum = greatest(quorum, $3)
               where number = $1",
};
const ASKED: Sql = Sql::Same("select actor, payload from job where number = $1");
const WITHDRAW: Sql = Sql::Each {
    sqlite: "update flow_wait set withdrawn = 1, yes = '[]' where flow = ?1 and kind = ?2",
    postgres: "update flow_wait set withdrawn = true, yes = '[]' where flow = $1 and kind = $2",
};
/// A decision that the run has not heard.
const DECIDED: Sql = Sql::Same("select 1 from flow_inbox where flow = $1 and body like '{\"is\":\"decided\"%'");
const WAIT_REMOVE: Sql = Sql::Each {
    sqlite: "delete from flow_wait where flow = ?1 and node = ?2 and visit = ?3",
    postgres: "delete from flow_wait w using unnest($1::bigint[], $2::text[], $3::bigint[]) as k (flow, node, visit)
               where w.flow = k.flow and w.node = k.node and w.visit = k.visit",
};
const WAITS_REMOVE: Sql = Sql::Each {
    sqlite: "delete from flow_wait where flow = ?1",
    postgres: "delete from flow_wait where flow = any ($1::bigint[])",
};
const WAIT_END: Sql = Sql::Same(
    "delete from flow_wait where flow = $1 and node = $2 and visit = $3 and (expires_at is null or expires_at > $4)",
);
/// A version without a turn: turns that go on from the one before are stale.
const FLOW_OUTDATE: Sql = Sql::Same("update flow set version = version + 1 where number = $1");
const CHILDREN: Sql = Sql::Each {
    sqlite: concat!(
        "select ",
        job_columns!(),
        ", c.lane from job j join channel c on c.id = j.channel where j.tenant = ?1 and j.id = ?2 and j.parent is null"
    ),
    postgres: concat!(
        "select ",
        job_columns!(),
        ", c.lane from job j join channel c on c.id = j.channel
         join unnest($1::uuid[], $2::uuid[]) as k (tenant, id) on j.tenant = k.tenant and j.id = k.id
         where j.parent is null order by j.number for update of j"
    ),
};
const ALL_CHILDREN: Sql = Sql::Each {
    sqlite: concat!(
        "select ",
        job_columns!(),
        ", c.lane from job j join channel c on c.id = j.channel where j.flow = ?1"
    ),
    postgres: concat!(
        "select ",
        job_columns!(),
        ", c.lane from job j join channel c on c.id = j.channel
         where j.flow = any ($1::bigint[]) order by j.number for update of j"
    ),
};
const FLOW_OF_JOB: Sql = Sql::Each {
    sqlite: "select j.number, j.status from job j join flow f on f.number = j.number
             where j.tenant = ?1 and j.id = ?2 and j.parent is null",
    postgres: "select j.number, j.status from job j join flow f on f.number = j.number
               where j.tenant = $1 and j.id = $2 and j.parent is null for update of j",
};
