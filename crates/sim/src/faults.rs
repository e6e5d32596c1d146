//! A store with teeth: away, in conflict, or silent about what it did.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_store_sql::db::{FaultPlan, Injected, Moment};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::plan::Plan;

#[derive(Debug)]
struct State {
    rng: StdRng,
    down: bool,
    healed: bool,
    counts: [u64; 4],
}

/// The store's die.
#[derive(Debug)]
pub struct Teeth {
    plan: Plan,
    state: Mutex<State>,
}

impl Teeth {
    pub fn new(plan: Plan, seed: u64) -> Self {
        let state = State { rng: StdRng::seed_from_u64(seed), down: false, healed: false, counts: [0; 4] };
        Self { plan, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_down(&self, down: bool) {
        self.state().down = down;
    }

    /// From now on everything works.
    pub fn heal(&self) {
        let mut state = self.state();
        state.down = false;
        state.healed = true;
    }

    /// How often it was away, in conflict, unknown and not stored, unknown and stored.
    pub fn counts(&self) -> [u64; 4] {
        self.state().counts
    }
}

impl FaultPlan for Teeth {
    fn at(&self, moment: Moment) -> Option<Injected> {
        let mut state = self.state();
        if state.healed {
            return None;
        }
        let plan = &self.plan;
        if state.down {
            state.counts[0] += 1;
            return Some(Injected::Unavailable);
        }
        let roll: f64 = state.rng.random();
        let (kind, injected) = match moment {
            Moment::Begin if roll < plan.unavailable => (0, Injected::Unavailable),
            Moment::BeforeCommit if roll < plan.conflict => (1, Injected::Conflict),
            Moment::BeforeCommit if roll < plan.conflict + plan.unknown_before => (2, Injected::Unknown),
            Moment::AfterCommit if roll < plan.unknown_after => (3, Injected::Unknown),
            _ => return None,
        };
        state.counts[kind] += 1;
        Some(injected)
    }
}
