//! What this worker has in hand, and what it ever started.
//!
//! A task is in hand from the moment it arrived until its end was told; so long it takes a slot, and so long heartbeats
//! name it once it is accepted. A finished task whose result the server has not heard is still in hand: its lease must not
//! run out, and a worker that cannot report must not take more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_model::RunId;
use tokio::sync::Notify;

use crate::recent::RecentRuns;
use crate::worker::lease::Lease;

pub(crate) struct Hand {
    slots: usize,
    inner: Mutex<Inner>,
    freed: Notify,
}

#[derive(Default)]
struct Inner {
    /// `None`: arrived, not accepted yet.
    held: HashMap<RunId, Option<Arc<Lease>>>,
    started: RecentRuns,
}

/// A task's slot. Dropping it puts the task out of hand.
pub(crate) struct Place {
    hand: Arc<Hand>,
    run: RunId,
}

impl Hand {
    pub fn new(slots: usize) -> Arc<Self> {
        Arc::new(Self { slots, inner: Mutex::default(), freed: Notify::new() })
    }

    /// Takes a task in hand; `None` if it is there already, was started before, or there is no slot for it.
    pub fn take(self: &Arc<Self>, run: RunId) -> Option<Place> {
        let mut inner = self.inner();
        if inner.held.len() >= self.slots || inner.held.contains_key(&run) || inner.started.contains(run) {
            return None;
        }
        inner.held.insert(run, None);
        Some(Place { hand: Arc::clone(self), run })
    }

    /// How many more tasks there is room for.
    pub fn free(&self) -> usize {
        self.slots.saturating_sub(self.inner().held.len())
    }

    /// Waits until there is room for one task at least, and says for how many.
    pub async fn room(&self) -> usize {
        loop {
            let freed = self.freed.notified();
            match self.free() {
                0 => freed.await,
                free => return free,
            }
        }
    }

    /// The accepted tasks that are still ours, as far as we know.
    pub fn named(&self) -> Vec<RunId> {
        let named =
            |(run, lease): (&RunId, &Option<Arc<Lease>>)| lease.as_ref().filter(|l| !l.is_stale()).map(|_| *run);
        self.inner().held.iter().filter_map(named).collect()
    }

    pub fn find(&self, run: RunId) -> Option<Arc<Lease>> {
        self.inner().held.get(&run).cloned().flatten()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    pub fn run(&self) -> RunId {
        self.run
    }

    /// The task is ours: heartbeats name it from now on, and it will never be taken in hand again.
    pub fn accept(&self, lease: Arc<Lease>) {
        let mut inner = self.hand.inner();
        inner.held.insert(self.run, Some(lease));
        inner.started.remember(self.run);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.hand.inner().held.remove(&self.run);
        self.hand.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bowline_model::Timestamp;
    use tokio::time::Instant;

    use super::*;
    use crate::worker::lease::StopReason;

    fn run(n: u8) -> RunId {
        RunId::mint(Timestamp::from_millis(1_000), [n; 10])
    }

    fn lease() -> Arc<Lease> {
        Arc::new(Lease::new(Duration::from_secs(30), Instant::now()))
    }

    #[test]
    fn a_task_that_was_started_is_never_taken_again() {
        let hand = Hand::new(2);
        let place = hand.take(run(1)).unwrap();
        assert!(hand.take(run(1)).is_none(), "it is in hand");
        place.accept(lease());
        drop(place);
        assert!(hand.take(run(1)).is_none(), "it was started");
        // One that was only looked at may come again.
        drop(hand.take(run(2)).unwrap());
        assert!(hand.take(run(2)).is_some());
    }

    #[test]
    fn there_are_as_many_places_as_slots() {
        let hand = Hand::new(1);
        let place = hand.take(run(1)).unwrap();
        assert_eq!(hand.free(), 0);
        assert!(hand.take(run(2)).is_none());
        drop(place);
        assert_eq!(hand.free(), 1);
    }

    #[test]
    fn heartbeats_name_what_is_accepted_and_not_stale() {
        let hand = Hand::new(3);
        let (one, two, _three) = (hand.take(run(1)).unwrap(), hand.take(run(2)).unwrap(), hand.take(run(3)).unwrap());
        let stale = lease();
        one.accept(lease());
        two.accept(Arc::clone(&stale));
        stale.stop(StopReason::Stale);
        assert_eq!(hand.named(), [run(1)]);
    }
}
