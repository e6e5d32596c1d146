//! What this agent has in hand, from the moment it arrived until the server has heard its end.
//!
//! So long it takes a slot; so long heartbeats name it once it is accepted, unless the server said that it is not ours
//! any more. An agent that cannot report must not take more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_model::RunId;
use bowline_protocol::HeartbeatAnswer;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::recent::RecentRuns;

/// Who executes a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executor {
    /// A keeper on this host. It outlives this process.
    Local,
    /// This process, on another host.
    Remote,
    /// This process, in its imagination.
    Simulated,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It arrived, and is not ours yet.
    Offered,
    /// The server confirmed it. It has not begun.
    Accepted,
    Begun(Executor),
}

#[derive(Debug, Clone, Copy)]
struct Held {
    phase: Phase,
    /// When the heartbeat was sent that renewed its lease last.
    renewed_at: Instant,
    canceled: bool,
    stale: bool,
    /// Nothing is heard of its host, and so nothing is said about it.
    silent: bool,
    /// It is over, and its end is being told.
    ending: bool,
}

/// Whether an accepted run may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Go {
    Begin,
    /// Somebody canceled it. It must not begin, and its end must be told.
    Canceled,
    /// It may be somebody else's by now. Nothing has happened, and nothing is to be told.
    NotOurs,
}

/// What an answer to a heartbeat asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Orders {
    pub cancel: Vec<(RunId, Executor)>,
    /// Not ours any more, and news to us.
    pub stale: Vec<RunId>,
}

/// A run in hand.
#[derive(Debug, Clone, Copy)]
pub struct InHand {
    pub run: RunId,
    /// Nobody before it has begun.
    pub executor: Option<Executor>,
    pub ending: bool,
}

pub struct Roster {
    slots: usize,
    inner: Mutex<Inner>,
    freed: watch::Sender<u64>,
}

#[derive(Default)]
struct Inner {
    held: HashMap<RunId, Held>,
    begun: RecentRuns,
}

impl Roster {
    pub fn new(slots: usize) -> Self {
        Self { slots, inner: Mutex::default(), freed: watch::Sender::new(0) }
    }

    /// Takes a run in hand. `false` if it is there already, was begun before, or there is no slot for it.
    pub fn offer(&self, run: RunId) -> bool {
        let mut inner = self.inner();
        if inner.held.len() >= self.slots || inner.held.contains_key(&run) || inner.begun.contains(run) {
            return false;
        }
        inner.held.insert(run, Held::new(Phase::Offered));
        true
    }

    pub fn accept(&self, run: RunId, sent_at: Instant, canceled: bool) {
        if let Some(held) = self.inner().held.get_mut(&run) {
            *held = Held { renewed_at: sent_at, canceled, ..Held::new(Phase::Accepted) };
        }
    }

    /// A run that was begun by an agent before us.
    pub fn adopt(&self, run: RunId, executor: Executor) {
        let mut inner = self.inner();
        inner.begun.remember(run);
        inner.held.insert(run, Held::new(Phase::Begun(executor)));
    }

    /// Whether the run may begin now, and that it has if it may. A tenth of the lease is kept as a margin.
    pub fn begin(&self, run: RunId, executor: Executor, now: Instant, lease: Duration) -> Go {
        let mut inner = self.inner();
        let Some(held) = inner.held.get_mut(&run) else { return Go::NotOurs };
        if held.canceled {
            return Go::Canceled;
        }
        if held.phase != Phase::Accepted || held.stale || now >= held.renewed_at + (lease - lease / 10) {
            return Go::NotOurs;
        }
        held.phase = Phase::Begun(executor);
        inner.begun.remember(run);
        Go::Begin
    }

    /// The run is out of hand: its end was heard, or it never was ours.
    pub fn done(&self, run: RunId) {
        if self.inner().held.remove(&run).is_some() {
            self.freed.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    pub fn set_silent(&self, run: RunId, silent: bool) {
        if let Some(held) = self.inner().held.get_mut(&run) {
            held.silent = silent;
        }
    }

    pub fn set_ending(&self, run: RunId) {
        if let Some(held) = self.inner().held.get_mut(&run) {
            held.ending = true;
        }
    }

    /// A cancellation that came to nothing: the next heartbeat brings it again.
    pub fn cancel_again(&self, run: RunId) {
        if let Some(held) = self.inner().held.get_mut(&run) {
            held.canceled = false;
        }
    }

    /// How many more runs there is room for.
    pub fn free(&self) -> usize {
        self.slots.saturating_sub(self.inner().held.len())
    }

    /// Changes whenever a run goes out of hand.
    pub fn freed(&self) -> watch::Receiver<u64> {
        self.freed.subscribe()
    }

    /// The runs whose leases we keep.
    pub fn named(&self) -> Vec<RunId> {
        let is_named = |held: &Held| held.phase != Phase::Offered && !held.stale && !held.silent;
        self.inner().held.iter().filter(|(_, held)| is_named(held)).map(|(run, _)| *run).collect()
    }

    /// Everything in hand.
    pub fn held(&self) -> Vec<InHand> {
        let in_hand = |(run, held): (&RunId, &Held)| {
            let executor = match held.phase {
                Phase::Offered | Phase::Accepted => None,
                Phase::Begun(executor) => Some(executor),
            };
            InHand { run: *run, executor, ending: held.ending }
        };
        self.inner().held.iter().map(in_hand).collect()
    }

    pub fn hear(&self, answer: &HeartbeatAnswer, sent_at: Instant) -> Orders {
        let mut inner = self.inner();
        let mut orders = Orders::default();
        for run in answer.renewed.iter().chain(&answer.cancel) {
            if let Some(held) = inner.held.get_mut(run) {
                held.renewed_at = held.renewed_at.max(sent_at);
            }
        }
        for run in &answer.cancel {
            if let Some(held) = inner.held.get_mut(run).filter(|held| !held.canceled) {
                held.canceled = true;
                if let Phase::Begun(executor) = held.phase {
                    orders.cancel.push((*run, executor));
                }
            }
        }
        for run in &answer.stale {
            if let Some(held) = inner.held.get_mut(run).filter(|held| !held.stale) {
                held.stale = true;
                // Its end may have arrived before this heartbeat did; then there is nothing new in it.
                if !held.ending {
                    orders.stale.push(*run);
                }
            }
        }
        orders
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn new(phase: Phase) -> Self {
        Self { phase, renewed_at: Instant::now(), canceled: false, stale: false, silent: false, ending: false }
    }
}

#[cfg(test)]
mod tests {
    use bowline_model::Timestamp;

    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn run(n: u8) -> RunId {
        RunId::mint(Timestamp::from_millis(1_000), [n; 10])
    }

    fn answer(renewed: &[RunId], cancel: &[RunId], stale: &[RunId]) -> HeartbeatAnswer {
        HeartbeatAnswer { renewed: renewed.into(), cancel: cancel.into(), stale: stale.into(), drain: false }
    }

    fn begin(roster: &Roster, n: u8, now: Instant) -> Go {
        roster.begin(run(n), Executor::Local, now, LEASE)
    }

    #[test]
    fn a_run_begins_once_and_only_while_its_lease_is_held() {
        let (roster, start) = (Roster::new(3), Instant::now());
        (1..4).for_each(|n| assert!(roster.offer(run(n))));
        assert!(!roster.offer(run(1)) && !roster.offer(run(4)) && roster.free() == 0);
        assert_eq!(begin(&roster, 1, start), Go::NotOurs, "it is not accepted");
        (1..4).for_each(|n| roster.accept(run(n), start, n == 3));
        assert_eq!(begin(&roster, 1, start + LEASE * 8 / 10), Go::Begin);
        assert_eq!(begin(&roster, 1, start), Go::NotOurs, "it has begun");
        assert_eq!(begin(&roster, 2, start + LEASE * 9 / 10), Go::NotOurs, "the lease may be over");
        roster.hear(&answer(&[run(2)], &[], &[]), start + LEASE / 2);
        assert_eq!(begin(&roster, 2, start + LEASE * 9 / 10), Go::Begin, "it was renewed");
        assert_eq!(begin(&roster, 3, start), Go::Canceled);
        roster.done(run(1));
        assert!(!roster.offer(run(1)), "it was begun before");
        assert!(roster.offer(run(4)));
    }

    #[test]
    fn a_stale_run_goes_on_without_being_named_and_a_canceled_one_is_told_once() {
        let (roster, start) = (Roster::new(9), Instant::now());
        for n in 1..5 {
            roster.offer(run(n));
            roster.accept(run(n), start, false);
        }
        (1..4).for_each(|n| assert_eq!(begin(&roster, n, start), Go::Begin));
        roster.set_silent(run(3), true);
        let heard = answer(&[], &[run(1), run(4)], &[run(2)]);
        let orders = roster.hear(&heard, start);
        assert_eq!(orders, Orders { cancel: vec![(run(1), Executor::Local)], stale: vec![run(2)] });
        assert_eq!(roster.hear(&heard, start), Orders::default());
        let mut named = roster.named();
        named.sort();
        assert_eq!(named, [run(1), run(4)]);
        assert_eq!(begin(&roster, 4, start), Go::Canceled);
        assert_eq!(roster.held().len(), 4);
        roster.set_ending(run(1));
        assert_eq!(roster.hear(&answer(&[], &[], &[run(1)]), start), Orders::default(), "it is over anyway");
    }
}
