//! The stage: machines, their inventories, the types of commands, and everybody who acts on them.

use std::rc::Rc;
use std::sync::Arc;

use bowline_model::fleet::{ApprovalRule, CommandSpec, HostLock, Template};
use bowline_model::host::{Host, Inventory};
use bowline_model::resource::Spec;
use bowline_model::{
    Event, EventKind, HostName, InventoryName, Labels, ResourceName, RetryPolicy, TenantId, WorkerName,
};
use bowline_store::{InventoryPut, JobStore, StoreError, StoreResult, Unmentioned};
use serde_json::json;
use tokio::task::{JoinHandle, spawn_local};

use super::agent::start_agent;
use super::{Machine, fate, people};
use crate::network::{call, pause};
use crate::world::World;

/// The machines of one simulation.
#[derive(Default)]
pub struct Fleet {
    pub machines: Vec<Rc<Machine>>,
}

impl Fleet {
    /// So many machines of the first tenant, and one of the second that has the name of the first one's first.
    pub fn new(machines: usize, tenants: [TenantId; 2]) -> Self {
        let machine = |n: usize, tenant: TenantId| {
            let name = format!("h{n}");
            let host = HostName::new(&name).expect("a name");
            Machine::new(host, WorkerName::new(&name).expect("a name"), tenant)
        };
        let mut all: Vec<_> = (0..machines).map(|n| machine(n, tenants[0])).collect();
        if machines > 0 {
            all.push(machine(0, tenants[1]));
        }
        Self { machines: all }
    }

    pub fn of(&self, tenant: TenantId) -> impl Iterator<Item = &Rc<Machine>> {
        self.machines.iter().filter(move |machine| machine.tenant == tenant)
    }
}

/// A type of command. Each version of it has a mark that can be seen where it runs.
pub struct Kind {
    pub name: &'static str,
    lock: HostLock,
    idempotent: bool,
    attempts: u32,
    /// How many must say yes, and whether whoever asked may be among them.
    pub approval: Option<(u32, bool)>,
}

pub const KINDS: [Kind; 7] = [
    Kind { name: "restart", lock: HostLock::Exclusive, idempotent: false, attempts: 1, approval: None },
    Kind { name: "status", lock: HostLock::Shared, idempotent: true, attempts: 3, approval: None },
    Kind { name: "install", lock: HostLock::Exclusive, idempotent: true, attempts: 3, approval: None },
    Kind { name: "patch", lock: HostLock::Exclusive, idempotent: false, attempts: 2, approval: None },
    Kind { name: "reboot", lock: HostLock::Exclusive, idempotent: false, attempts: 1, approval: Some((1, false)) },
    Kind { name: "wipe", lock: HostLock::Exclusive, idempotent: true, attempts: 2, approval: Some((2, true)) },
    Kind { name: "inspect", lock: HostLock::Shared, idempotent: false, attempts: 2, approval: Some((1, true)) },
];

impl Kind {
    pub fn resource(&self) -> ResourceName {
        ResourceName::new(self.name).expect("a name")
    }

    fn spec(&self, mark: u64) -> CommandSpec {
        let word = |text: &str| Template::parse(text).expect("a template");
        let retry = RetryPolicy {
            max_attempts: self.attempts,
            max_losses: 2,
            base_ms: 100,
            max_backoff_ms: 1_000,
            ..RetryPolicy::default()
        };
        CommandSpec {
            argv: vec![word(self.name), word("{{ params.ask }}"), word(&mark_of(mark))],
            params: Some(json!({"type": "object", "properties": {"ask": {"type": "integer"}}})),
            timeout_ms: 120_000,
            retry: Some(retry),
            lock: self.lock,
            idempotent: self.idempotent,
            approval: self.approval.map(|(quorum, four_eyes)| ApprovalRule {
                quorum,
                four_eyes,
                expires_ms: 8_000,
                ..ApprovalRule::default()
            }),
            ..CommandSpec::default()
        }
    }
}

pub fn mark_of(mark: u64) -> String {
    format!("mark-{mark}")
}

pub fn label(name: &str, value: &str) -> Labels {
    Labels::new([(name.to_owned(), value.to_owned())].into()).expect("a label")
}

pub fn inventory() -> InventoryName {
    InventoryName::new("main").expect("a name")
}

/// Describes the machines of a tenant. Every machine but those in `idle` has the role that selectors ask for.
pub async fn put_hosts(world: &Rc<World>, tenant: TenantId, idle: Option<&HostName>) -> StoreResult<()> {
    let host = |machine: &Rc<Machine>| Host {
        labels: label("role", if Some(&machine.host) == idle { "idle" } else { "web" }),
        ..Host::named(machine.host.clone())
    };
    let hosts = world.fleet.of(tenant).map(host).collect();
    let content = Arc::new(Inventory { hosts, groups: Vec::new() });
    let put = InventoryPut {
        tenant,
        inventory: inventory(),
        content,
        unmentioned: Unmentioned::Keep,
        by: "ops".into(),
        reason: None,
    };
    call(world, |engine| async move { engine.ledger.put_inventory(put).await }).await.map(drop)
}

/// Stores a new version of a type of command, and makes it the one that counts.
pub async fn put_kind(world: &Rc<World>, tenant: TenantId, kind: usize, mark: u64) -> StoreResult<()> {
    let (name, spec) = (KINDS[kind].resource(), Spec::Command(Box::new(KINDS[kind].spec(mark))));
    let put = |engine: Arc<bowline_engine::Engine>| async move {
        let stored = engine.resources.put(tenant, name, &spec, None, "ops".into(), true, None).await;
        stored.map(drop).map_err(|error| match error {
            bowline_engine::fleet::PutError::Store(error) => error,
            other => StoreError::Broken(other.to_string()),
        })
    };
    call(world, put).await?;
    world.notes.borrow_mut().fleet.marks.insert((tenant, kind), mark);
    Ok(())
}

/// Everything there must be before anybody can ask for anything.
pub async fn set_up(world: &Rc<World>) {
    if world.fleet.machines.is_empty() {
        return;
    }
    for tenant in world.tenants {
        while put_hosts(world, tenant, None).await.is_err() {
            pause(world).await;
        }
        for kind in 0..KINDS.len() {
            while put_kind(world, tenant, kind, 1).await.is_err() {
                pause(world).await;
            }
        }
    }
}

/// Everybody begins. They end by themselves once all is calm, but for the agents.
pub fn start(world: &Rc<World>) -> Vec<JoinHandle<()>> {
    let mut all = Vec::new();
    if world.fleet.machines.is_empty() {
        return all;
    }
    for machine in &world.fleet.machines {
        start_agent(world, machine);
        all.push(spawn_local(fate::of_machine(Rc::clone(world), Rc::clone(machine))));
    }
    for _ in 0..world.plan.requesters {
        all.push(spawn_local(people::requester(Rc::clone(world))));
    }
    for _ in 0..2 {
        all.push(spawn_local(people::approver(Rc::clone(world))));
    }
    all.push(spawn_local(people::changer(Rc::clone(world))));
    all.push(spawn_local(people::blocker(Rc::clone(world))));
    all.push(spawn_local(people::canceler(Rc::clone(world))));
    all
}

/// The end of the simulation: nobody is left.
pub fn stop(world: &World) {
    for machine in &world.fleet.machines {
        machine.kill_agent();
        machine.keepers.borrow().values().for_each(tokio::task::AbortHandle::abort);
    }
}

/// Counts what only the ledger can tell.
pub fn count(world: &World, events: &[Event]) {
    let mut notes = world.notes.borrow_mut();
    let counts = &mut notes.fleet.counts;
    for event in events {
        let count = match event.kind {
            EventKind::JobApproved => &mut counts.approvals_given,
            EventKind::JobSuperseded => &mut counts.approvals_superseded,
            EventKind::JobRejected => &mut counts.approvals_rejected,
            EventKind::JobApprovalExpired => &mut counts.approvals_expired,
            EventKind::UnitBlocked => &mut counts.blocked_at_the_last_moment,
            EventKind::HostAwaited => &mut counts.waited_for_host,
            EventKind::JobStopped => &mut counts.stopped_by_failures,
            EventKind::JobDeadlinePassed => &mut counts.deadlines_passed,
            _ => continue,
        };
        *count += 1;
    }
}

/// Whether every command has ended and every machine has told everything.
pub async fn at_rest(world: &World) -> anyhow::Result<bool> {
    if world.fleet.machines.iter().any(|machine| !machine.disk.borrow().runs.is_empty()) {
        return Ok(false);
    }
    let commands: Vec<_> = world.notes.borrow().fleet.commands.iter().map(|(job, c)| (c.tenant, *job)).collect();
    for (tenant, job) in commands {
        let found = world.ledger.find_job(tenant, job).await?;
        if found.is_some_and(|(job, _)| !job.state.status.is_terminal()) {
            return Ok(false);
        }
    }
    Ok(true)
}
