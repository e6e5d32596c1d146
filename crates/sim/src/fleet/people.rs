//! People and their programs: they ask for commands, approve and reject them, change what commands are, forbid and allow.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bowline_engine::Engine;
use bowline_engine::fleet::{CommandChoice, CommandError, CommandRequest, HostChoice, VoteRequest};
use bowline_model::fleet::{Decided, PinnedCommand, Rollout, Share};
use bowline_model::{HostName, JobId, JobStatus, Lane, TenantId};
use bowline_store::{
    ApprovalAnswer, BlockAnswer, BlockedPlace, JobOrder, NewBlock, OrderAnswer, Origin, StoreError, Submitted,
};
use serde_json::json;

use super::notes::{AskedCommand, Block, Vote};
use super::stage::{KINDS, inventory, put_hosts, put_kind};
use crate::network::{call, pause};
use crate::oracle::Violation;
use crate::world::World;

/// Whoever asks for commands.
pub const REQUESTER: &str = "ann";

fn pick(world: &World, count: usize) -> usize {
    usize::try_from(world.between(0, u64::try_from(count).unwrap_or(1))).unwrap_or(0)
}

fn pick_tenant(world: &World) -> TenantId {
    world.tenants[usize::from(world.chance() < 0.15)]
}

fn pick_host(world: &World, tenant: TenantId) -> HostName {
    let hosts: Vec<HostName> = world.fleet.of(tenant).map(|machine| machine.host.clone()).collect();
    hosts[pick(world, hosts.len())].clone()
}

async fn rest(world: &World, from: u64, to: u64) {
    tokio::time::sleep(Duration::from_millis(world.between(from, to))).await;
}

/// Asks for some commands, with a key each, until each is answered.
pub async fn requester(world: Rc<World>) {
    for _ in 0..world.plan.asks_per_requester {
        rest(&world, 100, 3_000).await;
        let ask = {
            let mut notes = world.notes.borrow_mut();
            notes.asks += 1;
            notes.asks
        };
        let (tenant, kind) = (pick_tenant(&world), pick(&world, KINDS.len()));
        let wish = request(&world, tenant, ask, kind);
        while !submit(&world, tenant, ask, kind, wish.clone()).await {
            pause(&world).await;
        }
    }
}

fn request(world: &World, tenant: TenantId, ask: u64, kind: usize) -> CommandRequest {
    let hosts = match world.between(0, 4) {
        0 => HostChoice::Named(vec![pick_host(world, tenant).into()]),
        1 => HostChoice::Selector("role=web".to_owned()),
        _ => HostChoice::Selector("all".to_owned()),
    };
    let share = |chance: f64, from, to| {
        let hosts = u32::try_from(world.between(from, to)).unwrap_or(1);
        (world.chance() < chance).then_some(Share::Hosts(hosts))
    };
    let rollout = Rollout { canary: share(0.4, 1, 3), serial: share(0.4, 1, 3), max_failures: share(0.4, 0, 2) };
    let params = json!({"ask": ask});
    CommandRequest {
        command: CommandChoice::Named { name: KINDS[kind].resource(), version: None },
        params: params.as_object().cloned().unwrap_or_default(),
        inventory: inventory(),
        hosts,
        rollout,
        deadline_ms: (world.chance() < 0.15).then(|| world.between(2_000, 15_000)),
        lane: Lane::ALL[pick(world, 4)],
        priority: 0,
        run_at: (world.chance() < 0.1).then(|| world.now().plus_millis(2_000)),
        idempotency_key: Some(format!("ask-{ask}")),
        external_id: None,
    }
}

async fn submit(world: &Rc<World>, tenant: TenantId, ask: u64, kind: usize, wish: CommandRequest) -> bool {
    let rollout = wish.rollout.clone();
    let origin = Origin { actor: REQUESTER.into(), request_id: "sim".into(), ..Origin::default() };
    let send = |engine: Arc<Engine>| async move {
        let (intake, inventories) = (&engine.intake, &engine.inventories);
        match Box::pin(engine.commands.submit(intake, inventories, tenant, &origin, wish)).await {
            Err(CommandError::Store(error)) => Err(error),
            other => Ok(other),
        }
    };
    let id = match call(world, send).await {
        Ok(Ok(Submitted::Accepted { id, .. } | Submitted::Replayed { id, .. } | Submitted::Pruned { id, .. })) => id,
        // Nobody has the role at the moment.
        Ok(Err(CommandError::NoHosts(_))) => return true,
        Ok(other) => {
            world.violated(Violation::new("I4", format!("ask {ask} was answered with {other:?}")));
            return true;
        }
        Err(StoreError::Broken(why)) => {
            world.violated(Violation::new("broken", why));
            return true;
        }
        Err(_) => return false,
    };
    let mut notes = world.notes.borrow_mut();
    let notes = &mut *notes;
    if notes.acked.insert((tenant, ask), id).is_some_and(|first| first != id) {
        notes.violations.push(Violation::new("C9", format!("ask {ask} was answered with two jobs")));
    }
    notes.fleet.commands.insert(id, AskedCommand { tenant, ask, kind, rollout });
    true
}

/// Looks at what waits for approval, thinks, and decides; sometimes two decide at once.
pub async fn approver(world: Rc<World>) {
    while !world.is_calm() {
        rest(&world, 100, 1_500).await;
        let tenant = world.tenants[usize::from(world.chance() < 0.3)];
        let list = |engine: Arc<Engine>| async move { engine.ledger.list_approvals(tenant, None, 10).await };
        let Ok(waiting) = call(&world, list).await else { continue };
        if waiting.items.is_empty() {
            continue;
        }
        let job = waiting.items[pick(&world, waiting.items.len())].job;
        let look = |engine: Arc<Engine>| async move { engine.ledger.find_job(tenant, job).await };
        let Ok(Some((record, _))) = call(&world, look).await else { continue };
        let pinned: Option<PinnedCommand> = record.payload.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let Some(pinned) = pinned else { continue };
        if world.chance() < 0.3 {
            continue;
        }
        rest(&world, 1, 2_500).await;
        let voters = ["bob", "eve", REQUESTER];
        let voter = |world: &World| voters[pick(world, voters.len())];
        let (one, other) = (voter(&world), voter(&world));
        if one != other && world.chance() < 0.4 {
            let (yes, no) = (world.chance() < 0.8, world.chance() < 0.7);
            let (first, second) = tokio::join!(
                decide(&world, tenant, job, &pinned, one, yes),
                decide(&world, tenant, job, &pinned, other, no)
            );
            let ends = |answer: &Option<ApprovalAnswer>| matches!(answer, Some(ApprovalAnswer::Decided(decided, _)) if !matches!(decided, Decided::Noted { .. }));
            if ends(&first) && ends(&second) {
                world.violated(Violation::new("A4", format!("job {job} was decided twice: {first:?}, {second:?}")));
            }
            let raced = ends(&first) != ends(&second) && first.is_some() && second.is_some();
            world.notes.borrow_mut().fleet.counts.deciders_raced += u64::from(raced);
        } else {
            let yes = world.chance() < 0.8;
            decide(&world, tenant, job, &pinned, one, yes).await;
        }
    }
}

/// The number in the mark of a command.
pub fn mark_in(argv: &[String]) -> u64 {
    argv.last().and_then(|word| word.strip_prefix("mark-")).and_then(|mark| mark.parse().ok()).unwrap_or(0)
}

pub fn words_of(pinned: &PinnedCommand) -> Vec<String> {
    pinned.spec.argv.iter().map(|word| word.as_str().to_owned()).collect()
}

async fn decide(
    world: &Rc<World>,
    tenant: TenantId,
    job: JobId,
    pinned: &PinnedCommand,
    by: &str,
    yes: bool,
) -> Option<ApprovalAnswer> {
    let words = words_of(pinned);
    let mark = mark_in(&words);
    let kind = KINDS.iter().position(|kind| Some(kind.name) == words.first().map(String::as_str))?;
    {
        let sent_at = world.now();
        let mut notes = world.notes.borrow_mut();
        let overtaken = notes.fleet.marks.get(&(tenant, kind)).is_some_and(|newest| *newest > mark);
        let saw = words.last().cloned().unwrap_or_default();
        notes.fleet.votes.push(Vote { job, by: by.to_owned(), yes, saw, overtaken, sent_at });
    }
    let vote = VoteRequest { by: by.into(), yes, reason: None, seen: None };
    let send =
        |engine: Arc<Engine>| async move { engine.commands.decide(&engine.inventories, tenant, job, vote).await };
    call(world, send).await.ok()
}

/// Changes what commands are, and which hosts have the role.
pub async fn changer(world: Rc<World>) {
    let mut marks = 1;
    while !world.is_calm() {
        rest(&world, 300, 3_000).await;
        let tenant = pick_tenant(&world);
        if world.chance() < 0.3 {
            let idle = (world.chance() < 0.7).then(|| pick_host(&world, tenant));
            drop(put_hosts(&world, tenant, idle.as_ref()).await);
            continue;
        }
        marks += 1;
        // Those that must be approved more often: a change between the wish and the yes is what there is to find.
        let approved = |kind: &usize| KINDS[*kind].approval.is_some();
        let kind = pick(&world, KINDS.len());
        let kind =
            if world.chance() < 0.6 { (0..KINDS.len()).filter(approved).nth(kind % 3).unwrap_or(kind) } else { kind };
        while put_kind(&world, tenant, kind, marks).await.is_err() {
            pause(&world).await;
        }
    }
}

/// Forbids commands here and there, and allows them again.
pub async fn blocker(world: Rc<World>) {
    while !world.is_calm() {
        rest(&world, 1_000, 8_000).await;
        let tenant = pick_tenant(&world);
        let host = (world.chance() < 0.8).then(|| pick_host(&world, tenant));
        let kind = (world.chance() < 0.5).then(|| pick(&world, KINDS.len()));
        let expires_at = (world.chance() < 0.5)
            .then(|| world.now().plus_millis(i64::try_from(world.between(500, 6_000)).unwrap_or(0)));
        let block = NewBlock {
            tenant,
            inventory: inventory(),
            place: host.clone().map_or_else(|| BlockedPlace::Selector("all".to_owned()), BlockedPlace::Host),
            command: kind.map(|kind| KINDS[kind].name.to_owned()),
            reason: "maintenance".to_owned(),
            by: "ops".into(),
            expires_at,
        };
        let made = call(&world, |engine| async move { engine.ledger.block(block).await }).await;
        if let Ok(BlockAnswer::Made(id)) = made {
            let set_at = world.now();
            let block = Block { id, tenant, host, kind, set_at, expires_at, lifted_at: None };
            world.notes.borrow_mut().fleet.blocks.push(block);
        }
        rest(&world, 100, 3_000).await;
        lift_all(&world).await;
    }
}

/// Also those that nobody was told of.
async fn lift_all(world: &Rc<World>) {
    for tenant in world.tenants {
        let list = |engine: Arc<Engine>| async move { engine.ledger.list_blocks(tenant).await };
        for block in call(world, list).await.unwrap_or_default() {
            let now = world.now();
            for known in &mut world.notes.borrow_mut().fleet.blocks {
                if (known.tenant, known.id) == (tenant, block.id) {
                    known.lifted_at.get_or_insert(now);
                }
            }
            let lift =
                |engine: Arc<Engine>| async move { engine.ledger.unblock(tenant, block.id, "ops".into(), None).await };
            drop(call(world, lift).await);
        }
    }
}

/// Cancels commands that run where nobody can be reached, and tries those again that ended badly.
pub async fn canceler(world: Rc<World>) {
    while !world.is_calm() {
        rest(&world, 200, 1_500).await;
        let commands: Vec<(TenantId, JobId)> =
            world.notes.borrow().fleet.commands.iter().map(|(job, command)| (command.tenant, *job)).collect();
        let cut_off = |job: JobId| world.fleet.machines.iter().any(|m| m.is_cut() && m.runs_command(job));
        let order = |tenant, job| JobOrder { tenant, job, by: "operator".into(), reason: None };
        if let Some((tenant, job)) = commands.iter().copied().find(|(_, job)| cut_off(*job))
            && world.chance() < 0.4
        {
            let order = order(tenant, job);
            let answer = call(&world, |engine| async move { engine.cancel_job(order).await }).await;
            if matches!(answer, Ok(OrderAnswer::Done(JobStatus::Canceling))) {
                world.notes.borrow_mut().fleet.counts.canceled_in_partition += 1;
            }
        } else if !commands.is_empty() && world.chance() < 0.1 {
            let (tenant, job) = commands[pick(&world, commands.len())];
            let order = order(tenant, job);
            drop(call(&world, |engine| async move { engine.commands.retry(&engine.inventories, order).await }).await);
        }
    }
}
