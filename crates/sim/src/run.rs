//! One simulation: warm-up and chaos, then calm, then judgement.

use std::collections::hash_map::DefaultHasher;
use std::future::poll_fn;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bowline_model::{Event, HostName};
use bowline_store::{
    Clock, EventFilter, EventStore, FlowStore, JobFilter, JobStore, MaintenanceStore, Position, TenantStore,
};
use bowline_store_sql::{Driver, SqlLedger, SqlSettings};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::{LocalSet, spawn_local};

use crate::clock::SimClock;
use crate::faults::Teeth;
use crate::fleet::{self, FleetCounts};
use crate::flow::{self, FlowCounts};
use crate::oracle::{self, Violation};
use crate::plan::{Plan, Scene};
use crate::server::{Server, misfortune};
use crate::world::World;
use crate::{people, workers};

/// How a simulation went.
#[derive(Debug)]
pub struct Report {
    pub seed: u64,
    pub violations: Vec<Violation>,
    pub jobs: u64,
    pub events: u64,
    /// The whole history as a number: the same seed gives the same one.
    pub trace: u64,
    pub crashes: u64,
    pub outages: u64,
    /// Away, in conflict, unknown and not stored, unknown and stored.
    pub store_faults: [u64; 4],
    pub stale_refused: u64,
    pub duplicates_ignored: u64,
    pub corrected: u64,
    /// What happened to commands on hosts.
    pub fleet: FleetCounts,
    /// What happened to runs of workflows.
    pub flow: FlowCounts,
}

/// How long everything may take to come to rest once nothing goes wrong any more.
const REST_S: u64 = 180;

/// Runs one seed of tasks and commands on hosts.
pub fn simulate(seed: u64) -> anyhow::Result<Report> {
    run(Scene::Jobs, seed)
}

/// Runs one seed of workflows.
pub fn simulate_flows(seed: u64) -> anyhow::Result<Report> {
    run(Scene::Flows, seed)
}

fn run(scene: Scene, seed: u64) -> anyhow::Result<Report> {
    bowline_engine::aside::stay_on_this_thread();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    LocalSet::new().block_on(&runtime, live(scene, seed))
}

/// Lets the ledger move, but only a while after something came in for it: whatever else comes meanwhile is beside it.
async fn slowly(mut driver: Driver, mut rng: StdRng, most_ms: u64) {
    while poll_fn(|context| Poll::Ready(driver.as_mut().poll(context))).await.is_pending() {
        let mut woken = false;
        poll_fn(|_| if std::mem::replace(&mut woken, true) { Poll::Ready(()) } else { Poll::Pending }).await;
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..=most_ms))).await;
    }
}

async fn live(scene: Scene, seed: u64) -> anyhow::Result<Report> {
    let mut rng = StdRng::seed_from_u64(seed);
    let plan = Plan::roll(scene, &mut rng);
    let clock = SimClock::start();
    let teeth = Arc::new(Teeth::new(plan.clone(), rng.random()));
    let settings = SqlSettings {
        key_ttl_ms: i64::MAX / 2_000,
        backlog_max: 10_000,
        seed: rng.random(),
        ..SqlSettings::new(Arc::<SimClock>::clone(&clock) as Arc<dyn Clock>)
    };
    let (ledger, driver) = SqlLedger::open_memory(&settings, Some(Arc::<Teeth>::clone(&teeth)))?;
    let ledger = Arc::new(ledger);
    let driver = match plan.slow_ms {
        0 => spawn_local(driver),
        most_ms => spawn_local(slowly(driver, StdRng::seed_from_u64(rng.random()), most_ms)),
    };
    let world = World::new(plan, clock, Arc::clone(&teeth), ledger, rng.random());
    for (n, tenant) in world.tenants.iter().enumerate() {
        // Before the chaos reaches it: without tenants there is nothing to simulate.
        while world.ledger.create_tenant(*tenant, format!("tenant-{n}"), "simulation".into()).await.is_err() {}
    }
    let server_seed: u64 = rng.random();
    let mut fates = Vec::new();
    for (slot, place) in world.servers.iter().enumerate().take(1 + usize::from(world.plan.two_servers)) {
        let own_seed = server_seed ^ (slot as u64) << 32;
        *place.borrow_mut() = Some(Server::start(&world, slot, own_seed)?);
        fates.push((slot, own_seed));
    }

    fleet::set_up(&world).await;
    flow::set_up(&world).await;
    let mut everybody = Vec::new();
    for number in 0..world.plan.workers {
        everybody.push(spawn_local(workers::worker(Rc::clone(&world), number)));
    }
    if scene == Scene::Jobs {
        everybody.push(spawn_local(people::operator(Rc::clone(&world))));
    }
    let fates: Vec<_> =
        fates.into_iter().map(|(slot, seed)| spawn_local(misfortune(Rc::clone(&world), slot, seed))).collect();
    let clients: Vec<_> = (0..world.plan.clients).map(|_| spawn_local(people::client(Rc::clone(&world)))).collect();

    let fleet = fleet::start(&world);
    let flows = flow::start(&world);
    let mut watched = Position::default();
    for _ in 0..world.plan.chaos_s {
        tokio::time::sleep(Duration::from_secs(1)).await;
        // The witness reads while it can; what it cannot read now it reads later.
        drop(oracle::nobody_was_lost_falsely(&world, &mut watched).await);
        drop(flow::watch(&world).await);
    }
    *world.calm.borrow_mut() = true;
    teeth.heal();
    for fate in fates {
        fate.await?;
    }
    for person in clients.into_iter().chain(fleet).chain(flows) {
        person.await?;
    }
    let mut rested = false;
    for _ in 0..REST_S {
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(oracle::nobody_was_lost_falsely(&world, &mut watched).await);
        flow::watch(&world).await?;
        flow::let_go(&world).await?;
        let depths = world.ledger.lane_depths(None).await?;
        if depths.iter().all(|d| d.queued + d.scheduled + d.running == 0)
            && fleet::at_rest(&world).await?
            && flow::at_rest(&world).await?
        {
            rested = true;
            break;
        }
    }
    // Reports that are on their way arrive, and are counted.
    tokio::time::sleep(Duration::from_secs(30)).await;
    oracle::nobody_was_lost_falsely(&world, &mut watched).await?;
    flow::watch(&world).await?;
    let mut violations = std::mem::take(&mut world.notes.borrow_mut().violations);
    if !rested {
        let depths = world.ledger.lane_depths(None).await?;
        let unheard = world.ledger.flow_inbox(10, bowline_store::InboxPart::all()).await?.items;
        let stirs = format!("lanes {depths:?}, unheard {unheard:?}");
        violations.push(Violation::new("C14", format!("not at rest {REST_S} s after the last fault: {stirs}")));
    }
    let told = history(&world).await?;
    violations.extend(oracle::judge(&world, &told).await?);
    let (trace, events) = (hash_of(&world, &told), told.len() as u64);
    fleet::count(&world, &told);
    let jobs = count(&world).await?;
    let report = {
        let notes = world.notes.borrow();
        Report {
            seed,
            violations,
            jobs,
            events,
            trace,
            crashes: notes.crashes,
            outages: notes.outages,
            store_faults: teeth.counts(),
            stale_refused: notes.stale_refused,
            duplicates_ignored: notes.duplicates_ignored,
            corrected: notes.corrected,
            fleet: notes.fleet.counts,
            flow: notes.flow.counts,
        }
    };
    for task in everybody {
        task.abort();
    }
    fleet::stop(&world);
    for place in &world.servers {
        if let Some(server) = place.borrow_mut().take() {
            server.crash();
        }
    }
    driver.abort();
    Ok(report)
}

async fn count(world: &World) -> anyhow::Result<u64> {
    let mut jobs = 0;
    for tenant in world.tenants {
        let mut before = None;
        loop {
            let page = world.ledger.list_jobs(tenant, JobFilter::default(), before, 500).await?;
            jobs += page.items.len() as u64;
            before = page.next;
            if before.is_none() {
                break;
            }
        }
    }
    Ok(jobs)
}

/// Every event, in order.
async fn history(world: &World) -> anyhow::Result<Vec<Event>> {
    let (mut position, mut events) = (Position::default(), Vec::new());
    loop {
        let page = world.ledger.events_after(position, EventFilter::default(), 500).await?;
        events.extend(page.events.into_iter().map(|(_, event)| event));
        position = page.end;
        if !page.more {
            return Ok(events);
        }
    }
}

/// Every event and every record of a workflow, folded into one number.
fn hash_of(world: &World, events: &[Event]) -> u64 {
    let mut hasher = DefaultHasher::new();
    flow::hash_into(world, &mut hasher);
    for event in events {
        let host = event.host.as_ref().map(HostName::as_str);
        (event.at, event.kind.as_str(), event.job, host, event.fence, event.seq).hash(&mut hasher);
    }
    hasher.finish()
}
