//! What goes wrong in one simulation, and how often. Each seed gets its own mixture: some faults often, some not at all.

use rand::RngExt;
use rand::rngs::StdRng;

/// The mixture.
#[derive(Debug, Clone)]
pub struct Plan {
    pub clients: usize,
    pub asks_per_client: usize,
    pub workers: usize,
    /// Machines that commands run on; none in a simulation of tasks only.
    pub machines: usize,
    pub requesters: usize,
    pub asks_per_requester: usize,
    /// Whoever asks for runs of workflows, and whoever meddles with them; none in a simulation of anything else.
    pub askers: usize,
    pub asks_per_asker: usize,
    pub meddlers: usize,
    /// A second server turns the same runs.
    pub two_servers: bool,
    /// How far the clock of a server may be wrong.
    pub clock_ms: u64,
    /// How long the ledger takes at most.
    pub slow_ms: u64,
    /// Chances, per call.
    pub unavailable: f64,
    pub conflict: f64,
    pub unknown_before: f64,
    pub unknown_after: f64,
    pub request_lost: f64,
    pub answer_lost: f64,
    pub repeated: f64,
    /// Chances, per run.
    pub worker_dies: f64,
    pub worker_freezes: f64,
    pub work_fails: f64,
    /// Chances, per step of a keeper.
    pub keeper_dies: f64,
    /// Chances, per second or so.
    pub agent_crash: f64,
    pub machine_crash: f64,
    pub cut: f64,
    pub freeze: f64,
    pub outage: f64,
    pub crash: f64,
    pub clock_jumps: f64,
    /// How long the chaos lasts, in seconds.
    pub chaos_s: u64,
}

fn sometimes(rng: &mut StdRng, often: f64, most: f64) -> f64 {
    if rng.random::<f64>() < often { rng.random::<f64>() * most } else { 0.0 }
}

/// What a simulation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scene {
    /// Tasks, commands on hosts, or both beside each other.
    Jobs,
    /// Runs of workflows, and the tasks that they begin.
    Flows,
}

impl Plan {
    pub fn roll(scene: Scene, rng: &mut StdRng) -> Self {
        match scene {
            Scene::Jobs => Self::jobs(rng),
            Scene::Flows => Self::flows(rng),
        }
    }

    fn flows(rng: &mut StdRng) -> Self {
        Self {
            clients: 0,
            machines: 0,
            askers: rng.random_range(2..4),
            asks_per_asker: rng.random_range(2..5),
            meddlers: rng.random_range(1..4),
            two_servers: rng.random::<f64>() < 0.7,
            clock_ms: if rng.random::<f64>() < 0.5 { rng.random_range(500..4_000) } else { 0 },
            clock_jumps: 0.2,
            slow_ms: if rng.random::<f64>() < 0.7 { rng.random_range(2..30) } else { 0 },
            worker_freezes: sometimes(rng, 0.5, 0.3),
            crash: sometimes(rng, 0.7, 0.15),
            chaos_s: rng.random_range(10..28),
            ..Self::jobs(rng)
        }
    }

    fn jobs(rng: &mut StdRng) -> Self {
        let scene: f64 = rng.random();
        let (tasks, fleet) = (scene < 0.55, scene > 0.4);
        Self {
            machines: if fleet { rng.random_range(2..6) } else { 0 },
            requesters: rng.random_range(1..4),
            asks_per_requester: rng.random_range(4..9),
            askers: 0,
            asks_per_asker: 0,
            meddlers: 0,
            two_servers: false,
            clock_ms: 0,
            clock_jumps: 0.0,
            slow_ms: 0,
            clients: if tasks { rng.random_range(2..5) } else { 0 },
            asks_per_client: rng.random_range(10..30),
            workers: rng.random_range(2..5),
            unavailable: sometimes(rng, 0.5, 0.1),
            conflict: sometimes(rng, 0.5, 0.1),
            unknown_before: sometimes(rng, 0.5, 0.1),
            unknown_after: sometimes(rng, 0.6, 0.2),
            request_lost: sometimes(rng, 0.6, 0.2),
            answer_lost: sometimes(rng, 0.6, 0.2),
            repeated: sometimes(rng, 0.6, 0.3),
            keeper_dies: sometimes(rng, 0.6, 0.1),
            agent_crash: sometimes(rng, 0.5, 0.12),
            machine_crash: sometimes(rng, 0.4, 0.1),
            cut: sometimes(rng, 0.7, 0.3),
            freeze: sometimes(rng, 0.6, 0.12),
            worker_dies: sometimes(rng, 0.5, 0.15),
            worker_freezes: sometimes(rng, 0.8, 0.6),
            work_fails: sometimes(rng, 0.7, 0.4),
            outage: sometimes(rng, 0.6, 0.06),
            crash: sometimes(rng, 0.5, 0.06),
            chaos_s: rng.random_range(20..60),
        }
    }
}
