//! People and their programs: they ask for runs, decide, tell, steer, cancel, retry and fork them.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bowline_engine::Engine;
use bowline_engine::flow::{DefinitionError, FlowError, FlowRequest, Forking, INLINE, LookError, WorkflowChoice};
use bowline_model::audit::Author;
use bowline_model::workflow::NodeId;
use bowline_model::{JobId, JobStatus, Lane, ResourceName, TenantId};
use bowline_store::{FlowAnswer, JobOrder, Origin, StoreError, StoreResult, Submitted, WaitKind};
use bowline_workflow::flow::{Breakpoint, Order};
use serde_json::{Map, json};

use super::graph::{EVENTS, INNER, roll};
use super::notes::{Decision, Seen};
use super::stage::put_inner;
use crate::network::{call_any, pause};
use crate::oracle::Violation;
use crate::world::World;

fn pick(world: &World, count: usize) -> usize {
    usize::try_from(world.between(0, u64::try_from(count).unwrap_or(1))).unwrap_or(0)
}

fn by(tenant: TenantId, name: &str) -> Author {
    Author { tenant: Some(tenant), ..Author::from(name) }
}

fn origin() -> Origin {
    Origin { actor: "ann".into(), request_id: "sim".into(), ..Origin::default() }
}

/// What can be said to a ledger, or a violation: whoever looks at a run that is there sees it.
fn looked<T>(world: &World, what: &str, answer: Result<T, LookError>) -> StoreResult<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(
            LookError::Store(StoreError::Broken(why))
            | LookError::Definition(DefinitionError::Store(StoreError::Broken(why))),
        ) => {
            world.violated(Violation::new("broken", format!("{what}: {why}")));
            Ok(None)
        }
        Err(LookError::Store(error) | LookError::Definition(DefinitionError::Store(error))) => Err(error),
        // There was nothing to see, or it made no sense.
        Err(_) => Ok(None),
    }
}

/// Asks for some runs, with a key each, until each is answered.
pub async fn asker(world: Rc<World>) {
    for _ in 0..world.plan.asks_per_asker {
        tokio::time::sleep(Duration::from_millis(world.between(50, 4_000))).await;
        let ask = {
            let mut notes = world.notes.borrow_mut();
            notes.asks += 1;
            notes.asks
        };
        let tenant = world.tenants[usize::from(world.chance() < 0.2)];
        let wish = request(&world, ask);
        while !submit(&world, tenant, ask, wish.clone()).await {
            pause(&world).await;
        }
    }
}

fn request(world: &World, ask: u64) -> FlowRequest {
    let workflow = match world.chance() < 0.15 {
        true => {
            let name = ResourceName::new(INNER[pick(world, INNER.len())]).expect("a name");
            WorkflowChoice::Named { name, version: None }
        }
        false => WorkflowChoice::Inline { name: INLINE.to_owned(), spec: Box::new(roll(world)) },
    };
    let breakpoints = match &workflow {
        WorkflowChoice::Inline { spec, .. } if world.chance() < 0.15 => {
            let node = spec.nodes[pick(world, spec.nodes.len())].id.clone();
            vec![Breakpoint { node, when: (world.chance() < 0.5).then(|| "{{variables.n}} > 0".to_owned()) }]
        }
        _ => Vec::new(),
    };
    FlowRequest {
        workflow,
        input: json!({"ask": ask}),
        debug: world.chance() < 0.1,
        breakpoints,
        lane: Lane::ALL[pick(world, 4)],
        priority: 0,
        run_at: (world.chance() < 0.15).then(|| world.now().plus_millis(1_500)),
        idempotency_key: Some(format!("ask-{ask}")),
        external_id: None,
    }
}

async fn submit(world: &Rc<World>, tenant: TenantId, ask: u64, wish: FlowRequest) -> bool {
    let spec = if let WorkflowChoice::Inline { spec, .. } = &wish.workflow { Some((**spec).clone()) } else { None };
    let send = |engine: Arc<Engine>| async move {
        match engine.flows.submit(engine.hands(), tenant, &origin(), vec![wish]).await {
            Err(FlowError::Store(error) | FlowError::Definition(DefinitionError::Store(error))) => Err(error),
            other => Ok(other.map(|mut answers| answers.pop().map(|answer| answer.submitted))),
        }
    };
    let id = match call_any(world, send).await {
        Ok(Ok(Some(
            Submitted::Accepted { id, .. } | Submitted::Replayed { id, .. } | Submitted::Pruned { id, .. },
        ))) => id,
        Err(StoreError::Broken(why)) => {
            world.violated(Violation::new("broken", why));
            return true;
        }
        Err(_) => return false,
        Ok(other) => {
            world.violated(Violation::new("I4", format!("ask {ask} was answered with {other:?}")));
            return true;
        }
    };
    let mut notes = world.notes.borrow_mut();
    let notes = &mut *notes;
    if notes.acked.insert((tenant, ask), id).is_some_and(|first| first != id) {
        notes.violations.push(Violation::new("C9", format!("ask {ask} was answered with two jobs")));
    }
    if let Some(spec) = spec {
        notes.flow.asked.insert(id, spec);
    }
    true
}

/// One of the runs that were seen so far.
fn any_run(world: &World) -> Option<(JobId, Seen)> {
    let count = world.notes.borrow().flow.seen.len();
    if count == 0 {
        return None;
    }
    // Rather one that goes on: of two, if the first is over.
    for _ in 0..2 {
        let place = pick(world, count);
        let notes = world.notes.borrow();
        let (job, seen) = notes.flow.seen.iter().nth(place)?;
        if !seen.status.is_terminal() {
            return Some((*job, seen.clone()));
        }
    }
    let place = pick(world, count);
    let notes = world.notes.borrow();
    notes.flow.seen.iter().nth(place).map(|(job, seen)| (*job, seen.clone()))
}

/// One of those that failed.
fn failed_run(world: &World) -> Option<(JobId, Seen)> {
    let notes = world.notes.borrow();
    let failed = notes.flow.seen.iter().filter(|(_, seen)| seen.status == JobStatus::Failed && seen.begun_by.is_none());
    let failed: Vec<_> = failed.collect();
    let place = pick(world, failed.len().max(1));
    failed.get(place).map(|(job, seen)| (**job, (*seen).clone()))
}

/// Does something to a run, again and again, until all is calm.
pub async fn meddler(world: Rc<World>) {
    while !world.is_calm() {
        tokio::time::sleep(Duration::from_millis(world.between(50, 1_200))).await;
        let Some((job, seen)) = any_run(&world) else { continue };
        match world.between(0, 20) {
            0 | 1 => cancel(&world, seen.tenant, job).await,
            2..5 => retry(&world, job, &seen).await,
            5 | 6 => {
                if let Some((job, seen)) = failed_run(&world) {
                    retry(&world, job, &seen).await;
                }
            }
            7..11 => steer(&world, seen.tenant, job).await,
            11 | 12 => fork(&world, job, &seen).await,
            13..16 => tell(&world, seen.tenant, job).await,
            16..19 => signal(&world, seen.tenant).await,
            _ => change(&world, seen.tenant).await,
        }
    }
}

async fn cancel(world: &Rc<World>, tenant: TenantId, job: JobId) {
    let order = JobOrder { tenant, job, by: by(tenant, "operator"), reason: None };
    drop(call_any(world, |engine| async move { engine.cancel_job(order).await }).await);
}

/// Lets a run go on where it failed. Not one that another began: that one has heard of its end.
async fn retry(world: &Rc<World>, job: JobId, seen: &Seen) {
    if seen.begun_by.is_some() || !seen.status.is_terminal() {
        return;
    }
    let tenant = seen.tenant;
    // Impatiently: what fails at once is tried again while its end is still being heard of.
    for _ in 0..world.between(1, 6) {
        // Written down before and after: somebody may look in between.
        let note = || *world.notes.borrow_mut().flow.retries.entry(job).or_default() += 1;
        note();
        let order = JobOrder { tenant, job, by: by(tenant, "operator"), reason: None };
        drop(call_any(world, |engine| async move { engine.ledger.retry_job(order).await }).await);
        note();
        tokio::time::sleep(Duration::from_millis(world.between(0, 120))).await;
    }
    if world.chance() < 0.3 {
        tokio::time::sleep(Duration::from_millis(world.between(0, 300))).await;
        cancel(world, tenant, job).await;
    }
}

async fn steer(world: &Rc<World>, tenant: TenantId, job: JobId) {
    let node = {
        let notes = world.notes.borrow();
        let spec = notes.flow.asked.get(&job);
        spec.map(|spec| spec.nodes[pick(world, spec.nodes.len())].id.clone())
    };
    let node = node.unwrap_or_else(|| NodeId::from("end"));
    let order = match world.between(0, 12) {
        0..3 => Order::Pause,
        3..5 => Order::Step,
        5..8 => Order::Continue,
        8 => Order::RunTo(node),
        9 => Order::Break(Breakpoint { node, when: None }),
        10 => Order::Unbreak(node),
        _ => Order::Edit(Map::from_iter([("n".to_owned(), json!(world.between(0, 3)))])),
    };
    steer_with(world, tenant, job, order).await;
}

pub async fn steer_with(world: &Rc<World>, tenant: TenantId, job: JobId, order: Order) {
    let steer = |engine: Arc<Engine>| async move {
        looked(world, "steering", engine.flows.steer(tenant, job, order, by(tenant, "operator"), None).await)
    };
    drop(call_any(world, steer).await);
}

/// Begins a run that goes on from a step of another.
async fn fork(world: &Rc<World>, job: JobId, seen: &Seen) {
    let tenant = seen.tenant;
    let steps = super::records::steps_in(&seen.turns);
    let from_step = u32::try_from(world.between(0, u64::from(steps) + 1)).unwrap_or(0);
    let variables = match world.chance() < 0.5 {
        true => Map::from_iter([("n".to_owned(), json!(7))]),
        false => Map::new(),
    };
    let forking = Forking { from_step, variables, definition: None, debug: world.chance() < 0.2, key: None };
    let fork = |engine: Arc<Engine>| async move {
        let forked = engine.flows.fork(engine.hands(), tenant, job, &origin(), forking).await;
        looked(world, "forking", forked)
    };
    drop(call_any(world, fork).await);
}

/// A signal that nobody sent before; sometimes sent twice.
fn new_signal(world: &World) -> (u64, bool) {
    let twice = world.strikes(world.plan.repeated);
    let mut notes = world.notes.borrow_mut();
    let signal = u64::try_from(notes.flow.signals.len()).unwrap_or(0) + 1;
    notes.flow.signals.insert(signal, 1 + u64::from(twice));
    (signal, twice)
}

fn event_of(world: &World, job: JobId) -> (&'static str, Option<String>) {
    let name = EVENTS[usize::from(world.chance() < 0.5)];
    let notes = world.notes.borrow();
    let ask = notes.acked.iter().find(|(_, acked)| **acked == job).map(|((_, ask), _)| ask.to_string());
    (name, ask)
}

/// Tells one run of something, perhaps before it waits for it.
async fn tell(world: &Rc<World>, tenant: TenantId, job: JobId) {
    let (name, key) = event_of(world, job);
    let (signal, twice) = new_signal(world);
    for _ in 0..=u32::from(twice) {
        let (key, payload) = (key.clone(), json!({"signal": signal}));
        let tell = |engine: Arc<Engine>| async move {
            engine.flows.tell(tenant, job, name, key, payload, by(tenant, "operator")).await
        };
        drop(call_any(world, tell).await);
    }
}

/// Tells everybody who waits for it.
async fn signal(world: &Rc<World>, tenant: TenantId) {
    let Some((job, _)) = any_run(world) else { return };
    let (name, key) = event_of(world, job);
    let (signal, twice) = new_signal(world);
    for _ in 0..=u32::from(twice) {
        let (key, payload) = (key.clone(), json!({"signal": signal}));
        let signal = |engine: Arc<Engine>| async move {
            engine.flows.signal(tenant, name, key, payload, by(tenant, "operator")).await
        };
        drop(call_any(world, signal).await);
    }
}

/// Stores another version of a workflow that runs begin.
async fn change(world: &Rc<World>, tenant: TenantId) {
    if put_inner(world, tenant, pick(world, INNER.len())).await.is_ok() {
        world.notes.borrow_mut().flow.counts.definitions_changed += 1;
    }
}

/// Looks at what waits for a decision, and decides; sometimes two do at once.
pub async fn decider(world: Rc<World>) {
    while !world.is_calm() {
        tokio::time::sleep(Duration::from_millis(world.between(200, 2_500))).await;
        let tenant = world.tenants[usize::from(world.chance() < 0.2)];
        let waits =
            call_any(
                &world,
                |engine| async move { engine.ledger.list_waits(tenant, WaitKind::Approval, None, 50).await },
            )
            .await;
        let Ok(waits) = waits else { continue };
        if waits.items.is_empty() {
            continue;
        }
        let wait = &waits.items[pick(&world, waits.items.len())];
        let (job, node) = (wait.job, &*wait.wait.node);
        if world.chance() < 0.3 {
            world.notes.borrow_mut().flow.counts.deciders_raced += 1;
            tokio::join!(decide(&world, tenant, job, node), decide(&world, tenant, job, node));
        } else {
            decide(&world, tenant, job, node).await;
        }
    }
}

async fn decide(world: &Rc<World>, tenant: TenantId, job: JobId, node: &str) {
    let yes = world.chance() < 0.7;
    let name = {
        let mut notes = world.notes.borrow_mut();
        let name = format!("decider-{}", notes.flow.decisions.len());
        notes.flow.decisions.insert(name.clone(), Decision { job, yes, taken: false });
        name
    };
    let author = by(tenant, &name);
    let decide = |engine: Arc<Engine>| async move {
        looked(world, "deciding", engine.flows.decide(tenant, job, Some(node), yes, author, None).await)
    };
    if let Ok(Some(FlowAnswer::Taken)) = call_any(world, decide).await
        && let Some(decision) = world.notes.borrow_mut().flow.decisions.get_mut(&name)
    {
        decision.taken = true;
    }
}
