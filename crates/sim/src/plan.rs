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
    /// How long the chaos lasts, in seconds.
    pub chaos_s: u64,
}

fn sometimes(rng: &mut StdRng, often: f64, most: f64) -> f64 {
    if rng.random::<f64>() < often { rng.random::<f64>() * most } else { 0.0 }
}

impl Plan {
    pub fn roll(rng: &mut StdRng) -> Self {
        // Tasks, commands on hosts, or both beside each other.
        let scene: f64 = rng.random();
        let (tasks, fleet) = (scene < 0.55, scene > 0.4);
        Self {
            machines: if fleet { rng.random_range(2..6) } else { 0 },
            requesters: rng.random_range(1..4),
            asks_per_requester: rng.random_range(4..9),
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
