//! What goes wrong in one simulation, and how often. Each seed gets its own mixture: some faults often, some not at all.

use rand::RngExt;
use rand::rngs::StdRng;

/// The mixture.
#[derive(Debug, Clone)]
pub struct Plan {
    pub clients: usize,
    pub asks_per_client: usize,
    pub workers: usize,
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
    /// Chances, per second.
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
        Self {
            clients: rng.random_range(2..5),
            asks_per_client: rng.random_range(10..30),
            workers: rng.random_range(2..5),
            unavailable: sometimes(rng, 0.5, 0.1),
            conflict: sometimes(rng, 0.5, 0.1),
            unknown_before: sometimes(rng, 0.5, 0.1),
            unknown_after: sometimes(rng, 0.6, 0.2),
            request_lost: sometimes(rng, 0.6, 0.2),
            answer_lost: sometimes(rng, 0.6, 0.2),
            repeated: sometimes(rng, 0.6, 0.3),
            worker_dies: sometimes(rng, 0.5, 0.15),
            worker_freezes: sometimes(rng, 0.7, 0.3),
            work_fails: sometimes(rng, 0.7, 0.4),
            outage: sometimes(rng, 0.6, 0.06),
            crash: sometimes(rng, 0.5, 0.06),
            chaos_s: rng.random_range(20..60),
        }
    }
}
