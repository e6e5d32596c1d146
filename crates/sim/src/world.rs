//! What the witnesses wrote down. Nothing here is asked of the ledger.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use bowline_model::{JobId, Outcome, RunId, TenantId, Timestamp};
use bowline_store::Clock;
use bowline_store_sql::SqlLedger;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::clock::SimClock;
use crate::faults::Teeth;
use crate::fleet::{Fleet, FleetNotes};
use crate::flow::FlowNotes;
use crate::oracle::Violation;
use crate::plan::Plan;
use crate::server::Server;

/// What a worker knows of a run it began.
#[derive(Debug, Clone, Default)]
pub struct RunNotes {
    pub starts: u32,
    pub outcome: Option<Outcome>,
    /// Since when it has not been trying to be heard: dead, frozen or done.
    pub silent_since: Option<Timestamp>,
    /// When its last heartbeat was answered well.
    pub heard_at: Option<Timestamp>,
    pub events_sent: u64,
    pub events_added: u64,
}

/// The notes.
#[derive(Debug, Default)]
pub struct Notes {
    /// What was answered to which ask.
    pub acked: BTreeMap<(TenantId, u64), JobId>,
    pub asks: u64,
    pub runs: BTreeMap<RunId, RunNotes>,
    /// New jobs made of a dead letter.
    pub replays: BTreeMap<JobId, Vec<JobId>>,
    /// Since when everything has been reachable without a break.
    pub well_since: Timestamp,
    pub violations: Vec<Violation>,
    pub crashes: u64,
    pub outages: u64,
    pub stale_refused: u64,
    pub duplicates_ignored: u64,
    pub corrected: u64,
    pub fleet: FleetNotes,
    pub flow: FlowNotes,
}

/// Everything in one simulation.
pub struct World {
    pub plan: Plan,
    pub clock: Arc<SimClock>,
    pub teeth: Arc<Teeth>,
    pub ledger: Arc<SqlLedger>,
    pub tenants: [TenantId; 2],
    pub fleet: Fleet,
    /// One server, or two in a simulation of workflows; whoever is down is missing.
    pub servers: [RefCell<Option<Rc<Server>>>; 2],
    pub notes: RefCell<Notes>,
    rng: RefCell<StdRng>,
    /// Set when the chaos is over: nothing more goes wrong.
    pub calm: RefCell<bool>,
}

impl World {
    pub fn new(plan: Plan, clock: Arc<SimClock>, teeth: Arc<Teeth>, ledger: Arc<SqlLedger>, seed: u64) -> Rc<Self> {
        let mut rng = StdRng::seed_from_u64(seed);
        let tenants = [0, 1].map(|_| TenantId::mint(clock.now(), rng.random()));
        let notes = Notes { well_since: clock.now(), ..Notes::default() };
        let fleet = Fleet::new(plan.machines, tenants);
        Rc::new(Self {
            fleet,
            plan,
            clock,
            teeth,
            ledger,
            tenants,
            servers: [RefCell::new(None), RefCell::new(None)],
            notes: RefCell::new(notes),
            rng: RefCell::new(rng),
            calm: RefCell::new(false),
        })
    }

    pub fn chance(&self) -> f64 {
        self.rng.borrow_mut().random()
    }

    /// Whether something with this chance goes wrong now. Never when all is calm.
    pub fn strikes(&self, chance: f64) -> bool {
        let roll = self.chance();
        !*self.calm.borrow() && roll < chance
    }

    pub fn between(&self, from: u64, to: u64) -> u64 {
        self.rng.borrow_mut().random_range(from..to)
    }

    /// The server that somebody reaches, if there is one.
    pub fn reached(&self) -> Option<Rc<Server>> {
        let [first, second] = &self.servers;
        if !self.plan.two_servers {
            return first.borrow().clone();
        }
        let (near, far) = if self.chance() < 0.5 { (first, second) } else { (second, first) };
        let near = near.borrow().clone();
        near.or_else(|| far.borrow().clone())
    }

    /// How wrong a clock is from now on, in milliseconds.
    pub fn wrong_by(&self) -> i64 {
        let most = self.plan.clock_ms;
        i64::try_from(self.between(0, 2 * most + 1)).unwrap_or(0) - i64::try_from(most).unwrap_or(0)
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn is_calm(&self) -> bool {
        *self.calm.borrow()
    }

    pub fn violated(&self, violation: Violation) {
        self.notes.borrow_mut().violations.push(violation);
    }
}
