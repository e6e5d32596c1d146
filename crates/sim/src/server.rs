//! A server: the real engine, which can be crashed and started again on the same ledger.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bowline_engine::builtin::Handlers;
use bowline_engine::flow::turn_forever;
use bowline_engine::secrets::{SecretRules, Secrets};
use bowline_engine::{Engine, EngineSettings, TenantRules};
use bowline_model::lane::LaneWeights;
use bowline_model::lease::LeaseTimes;
use bowline_model::worker::Strategy;
use bowline_store::{Clock, Ledger, Retention};
use bowline_supervise::{Meters, Supervisor, TaskKind};
use tokio_util::sync::CancellationToken;

use crate::clock::SimClock;
use crate::world::World;

/// The times of every simulation.
pub const TIMES: LeaseTimes = LeaseTimes { ttl_ms: 3_000, accept_ms: 1_000, heartbeat_ms: 500, deadline_grace_ms: 500 };

/// One life of a server.
pub struct Server {
    pub engine: Arc<Engine>,
    supervisor: Supervisor,
    /// What it believes the time to be.
    clock: Arc<SimClock>,
    /// Canceled when it crashes: whoever waits for its answer hears nothing.
    pub gone: CancellationToken,
}

impl Server {
    /// The first server has all of its loops. The second one has only the turner: both share one ledger here, which has room
    /// for one dispatcher, where real servers have a door to it each.
    pub fn start(world: &World, slot: usize, seed: u64) -> anyhow::Result<Rc<Self>> {
        let settings = EngineSettings {
            weights: LaneWeights::default(),
            strategy: Strategy::RoundRobin,
            lease: TIMES,
            retention: Retention { finished_jobs_ms: i64::MAX / 2_000, events_ms: i64::MAX / 2_000 },
            job_deadline_ms: None,
            command_retries: Default::default(),
            builtin_slots: 0,
            egress: TenantRules::default(),
            quotas: bowline_engine::QuotaLimits::default(),
            server_name: format!("{seed:x}"),
            seed,
        };
        let ledger: Arc<dyn Ledger> = Arc::<bowline_store_sql::SqlLedger>::clone(&world.ledger);
        let own_clock = world.clock.beside();
        if world.plan.clock_ms > 0 {
            own_clock.jump(world.wrong_by());
        }
        let clock: Arc<dyn Clock> = Arc::<SimClock>::clone(&own_clock);
        let secrets =
            Secrets::new(Arc::clone(&ledger), Arc::clone(&clock), SecretRules::default(), BTreeMap::default());
        let engine = Engine::new(
            ledger,
            clock,
            Meters::new(),
            settings,
            Handlers::standard(),
            Arc::default() as Arc<bowline_backbone::MemoryBlobs>,
            secrets,
        )?;
        let supervisor = Supervisor::new();
        if slot == 0 {
            engine.start(&supervisor);
        } else {
            let (engine, stop) = (Arc::clone(&engine), supervisor.stop().clone());
            supervisor.start(TaskKind::Turner, move || turn_forever(Arc::clone(&engine), stop.clone()));
        }
        Ok(Rc::new(Self { engine, supervisor, clock: own_clock, gone: CancellationToken::new() }))
    }

    pub fn crash(&self) {
        self.gone.cancel();
        self.supervisor.abort();
    }
}

/// Crashes one of the servers now and then, sets its clock wrong, and takes the store away, until all is calm.
pub async fn misfortune(world: Rc<World>, slot: usize, seed: u64) {
    let mut lives = 0;
    while !world.is_calm() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if world.plan.clock_ms > 0 && world.strikes(world.plan.clock_jumps) {
            let ahead_ms = world.wrong_by();
            if let Some(server) = &*world.servers[slot].borrow() {
                server.clock.jump(ahead_ms);
                world.notes.borrow_mut().flow.counts.clock_jumps += 1;
            }
        }
        if slot == 0 && world.strikes(world.plan.outage) {
            world.teeth.set_down(true);
            world.notes.borrow_mut().outages += 1;
            tokio::time::sleep(Duration::from_millis(world.between(200, 10_000))).await;
            world.teeth.set_down(false);
            world.notes.borrow_mut().well_since = world.now();
        }
        if world.strikes(world.plan.crash) {
            lives += 1;
            let before = world.servers[slot].borrow_mut().take();
            if let Some(server) = before {
                server.crash();
            }
            world.notes.borrow_mut().crashes += 1;
            tokio::time::sleep(Duration::from_millis(world.between(50, 8_000))).await;
            match Server::start(&world, slot, seed.wrapping_add(lives)) {
                Ok(server) => *world.servers[slot].borrow_mut() = Some(server),
                Err(error) => panic!("a server could not be started again: {error}"),
            }
            if slot == 0 {
                world.notes.borrow_mut().well_since = world.now();
            }
        }
    }
}
