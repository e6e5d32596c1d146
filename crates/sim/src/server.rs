//! A server: the real engine, which can be crashed and started again on the same ledger.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bowline_engine::builtin::Handlers;
use bowline_engine::secrets::{SecretRules, Secrets};
use bowline_engine::{Engine, EngineSettings, TenantRules};
use bowline_model::lane::LaneWeights;
use bowline_model::lease::LeaseTimes;
use bowline_model::worker::Strategy;
use bowline_store::{Clock, Ledger, Retention};
use bowline_supervise::{Meters, Supervisor};
use tokio_util::sync::CancellationToken;

use crate::world::World;

/// The times of every simulation.
pub const TIMES: LeaseTimes = LeaseTimes { ttl_ms: 3_000, accept_ms: 1_000, heartbeat_ms: 500, deadline_grace_ms: 500 };

/// One life of a server.
pub struct Server {
    pub engine: Arc<Engine>,
    supervisor: Supervisor,
    /// Canceled when it crashes: whoever waits for its answer hears nothing.
    pub gone: CancellationToken,
}

impl Server {
    pub fn start(world: &World, seed: u64) -> anyhow::Result<Rc<Self>> {
        let settings = EngineSettings {
            weights: LaneWeights::default(),
            strategy: Strategy::RoundRobin,
            lease: TIMES,
            retention: Retention { finished_jobs_ms: i64::MAX / 2_000, events_ms: i64::MAX / 2_000 },
            builtin_slots: 0,
            egress: TenantRules::default(),
            server_name: format!("{seed:x}"),
            seed,
        };
        let ledger: Arc<dyn Ledger> = Arc::<bowline_store_sql::SqlLedger>::clone(&world.ledger);
        let clock: Arc<dyn Clock> = Arc::<crate::clock::SimClock>::clone(&world.clock);
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
        engine.start(&supervisor);
        Ok(Rc::new(Self { engine, supervisor, gone: CancellationToken::new() }))
    }

    pub fn crash(&self) {
        self.gone.cancel();
        self.supervisor.abort();
    }
}

/// Crashes the server now and then, and takes the store away, until all is calm.
pub async fn misfortune(world: Rc<World>, seed: u64) {
    let mut lives = 0;
    while !world.is_calm() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if world.strikes(world.plan.outage) {
            world.teeth.set_down(true);
            world.notes.borrow_mut().outages += 1;
            tokio::time::sleep(Duration::from_millis(world.between(200, 10_000))).await;
            world.teeth.set_down(false);
            world.notes.borrow_mut().well_since = world.now();
        }
        if world.strikes(world.plan.crash) {
            lives += 1;
            let before = world.server.borrow_mut().take();
            if let Some(server) = before {
                server.crash();
            }
            world.notes.borrow_mut().crashes += 1;
            tokio::time::sleep(Duration::from_millis(world.between(50, 8_000))).await;
            match Server::start(&world, seed.wrapping_add(lives)) {
                Ok(server) => *world.server.borrow_mut() = Some(server),
                Err(error) => panic!("a server could not be started again: {error}"),
            }
            world.notes.borrow_mut().well_since = world.now();
        }
    }
}
