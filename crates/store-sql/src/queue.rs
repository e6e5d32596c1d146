//! The queue in front of the committer: a share of every batch, and of the room to wait, for each tenant.
//!
//! Writes of one tenant are stored in the order in which they came. Between tenants a batch is filled in turns, a
//! [`QUANTUM`] at a time, so a write waits for the batch that is under way and for those of as many tenants as fill a batch,
//! not for everything that another tenant has asked for. The server's own writes come first; there are few of them.
//!
//! A tenant whose writes fill its share of the room is told so at once (`StoreError::Busy`). One write alone always fits.
//! Half a share more is kept for what workers report of work that has started ([`Command::is_of_running_work`]): whatever else
//! a tenant asks for must not cost its runs their leases.

use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_model::TenantId;
use tokio::sync::Notify;

use crate::command::Command;

/// What one tenant takes of a batch before others have their turn, by weight.
const QUANTUM: usize = 100;

/// What may wait of one tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteShare {
    /// By weight: about one for each job, event or run.
    pub weight: usize,
    pub bytes: usize,
}

impl Default for WriteShare {
    fn default() -> Self {
        Self { weight: 16_384, bytes: 64 << 20 }
    }
}

impl WriteShare {
    /// The share of writes about work that has started.
    const fn with_reserve(self) -> Self {
        Self { weight: self.weight + self.weight / 2, bytes: self.bytes + self.bytes / 2 }
    }
}

/// What does not fit.
#[derive(Debug, PartialEq, Eq)]
pub enum NotQueued {
    /// The share of its tenant is full.
    Full,
    /// No committer takes anything from the queue any more.
    Closed,
}

#[derive(Debug, Default)]
struct OfTenant {
    writes: VecDeque<Command>,
    weight: usize,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    /// The server's own.
    own: VecDeque<Command>,
    tenants: HashMap<TenantId, OfTenant>,
    /// Tenants that have something waiting, each once; the next one first.
    turns: VecDeque<TenantId>,
    /// Committers that take writes.
    takers: usize,
    is_closed: bool,
}

#[derive(Debug)]
pub struct WriteQueue {
    share: WriteShare,
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

/// The end of the queue that writes are put in at. When it goes, the committers end.
#[derive(Debug)]
pub struct Writes(pub Arc<WriteQueue>);

impl Drop for Writes {
    fn drop(&mut self) {
        self.0.waiting().is_closed = true;
        self.0.arrived.notify_waiters();
        self.0.arrived.notify_one();
    }
}

/// The end of the queue that writes are taken from. When the last one goes, by a panic too, whatever waits is dropped, so that
/// its callers hear that the ledger has stopped, and nothing more is put in.
#[derive(Debug)]
pub struct Taker(Arc<WriteQueue>);

impl Deref for Taker {
    type Target = WriteQueue;

    fn deref(&self) -> &WriteQueue {
        &self.0
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        waiting.takers -= 1;
        if waiting.takers > 0 {
            return;
        }
        waiting.is_closed = true;
        let left = (std::mem::take(&mut waiting.own), std::mem::take(&mut waiting.tenants));
        waiting.turns.clear();
        drop(waiting);
        // Outside of the lock: dropping a write answers its caller.
        drop(left);
    }
}

impl WriteQueue {
    pub fn new(share: WriteShare) -> (Writes, Arc<Self>) {
        let queue = Arc::new(Self { share, waiting: Mutex::default(), arrived: Notify::new() });
        (Writes(Arc::clone(&queue)), queue)
    }

    /// One more committer that takes writes.
    pub fn taker(self: &Arc<Self>) -> Taker {
        self.waiting().takers += 1;
        Taker(Arc::clone(self))
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_empty(&self) -> bool {
        let waiting = self.waiting();
        waiting.own.is_empty() && waiting.turns.is_empty()
    }

    pub fn push(&self, write: Command) -> Result<(), NotQueued> {
        let mut waiting = self.waiting();
        if waiting.is_closed {
            return Err(NotQueued::Closed);
        }
        match write.tenant() {
            None => waiting.own.push_back(write),
            Some(tenant) => {
                let (weight, bytes) = share_of(&write);
                let share = if write.is_of_running_work() { self.share.with_reserve() } else { self.share };
                let of = waiting.tenants.entry(tenant).or_default();
                let is_first = of.writes.is_empty();
                if !is_first && (of.weight + weight > share.weight || of.bytes + bytes > share.bytes) {
                    return Err(NotQueued::Full);
                }
                of.weight += weight;
                of.bytes += bytes;
                of.writes.push_back(write);
                if is_first {
                    waiting.turns.push_back(tenant);
                }
            }
        }
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// Everybody who waits, up to a batch; nothing when nobody can come any more.
    pub async fn batch(&self, weight_max: usize, batch: &mut Vec<Command>) -> bool {
        loop {
            let arrived = self.arrived.notified();
            {
                let mut waiting = self.waiting();
                waiting.take(weight_max, batch);
                if !batch.is_empty() {
                    let is_left = !waiting.own.is_empty() || !waiting.turns.is_empty();
                    drop(waiting);
                    if is_left {
                        // For another committer.
                        self.arrived.notify_one();
                    }
                    return true;
                }
                if waiting.is_closed {
                    return false;
                }
            }
            arrived.await;
        }
    }
}

/// What a write takes of its tenant's share. How many jobs may wait is bounded by the room for submissions.
fn share_of(write: &Command) -> (usize, usize) {
    let weight = if matches!(write, Command::Submit(..)) { 0 } else { write.weight() };
    (weight, write.bytes())
}

impl Waiting {
    fn take(&mut self, weight_max: usize, batch: &mut Vec<Command>) {
        let mut weight = 0;
        while weight < weight_max
            && let Some(own) = self.own.pop_front()
        {
            weight += own.weight();
            batch.push(own);
        }
        // The server's own leave room for at least one turn.
        let mut is_first = true;
        while (weight < weight_max || is_first)
            && let Some(tenant) = self.turns.pop_front()
        {
            is_first = false;
            let Some(of) = self.tenants.get_mut(&tenant) else { continue };
            let mut taken = 0;
            while taken < QUANTUM
                && let Some(write) = of.writes.pop_front()
            {
                let (weight, bytes) = share_of(&write);
                of.weight = of.weight.saturating_sub(weight);
                of.bytes = of.bytes.saturating_sub(bytes);
                taken += write.weight();
                batch.push(write);
            }
            weight += taken;
            if of.writes.is_empty() {
                self.tenants.remove(&tenant);
            } else {
                self.turns.push_back(tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use bowline_model::{EventKind, Outcome, RunId, Timestamp, WorkerName};
    use bowline_store::{Heartbeat, Notice, RunReport};
    use tokio::sync::oneshot;

    use super::*;

    fn tenant(n: u8) -> TenantId {
        TenantId::mint(Timestamp::from_millis(1), [n; 10])
    }

    fn write(n: u8) -> Command {
        let (reply, _) = oneshot::channel();
        let notice = Notice { tenant: tenant(n), kind: EventKind::EvaluationResumed, data: Default::default() };
        Command::Note(notice, reply)
    }

    async fn batch(queue: &WriteQueue) -> Vec<Option<TenantId>> {
        let mut batch = Vec::new();
        assert!(queue.batch(2_000, &mut batch).await);
        batch.iter().map(Command::tenant).collect()
    }

    /// Batches until the write that came last is in one.
    async fn batches_until_last(queue: &WriteQueue, last: TenantId, count: usize) -> usize {
        let mut seen = 0;
        for n in 1.. {
            seen += batch(queue).await.iter().filter(|of| **of == Some(last)).count();
            if seen == count {
                return n;
            }
        }
        unreachable!()
    }

    #[tokio::test]
    async fn a_flood_of_one_tenant_does_not_hold_up_another() {
        let (_writes, queue) = WriteQueue::new(WriteShare::default());
        for _ in 0..16_000 {
            queue.push(write(1)).expect("room");
        }
        queue.push(write(2)).expect("room");
        assert_eq!(batches_until_last(&queue, tenant(2), 1).await, 1, "it is in the next batch");
        // The control: where both share one queue, it is in the last one.
        let (_writes, queue) = WriteQueue::new(WriteShare::default());
        for _ in 0..16_001 {
            queue.push(write(1)).expect("room");
        }
        assert_eq!(batches_until_last(&queue, tenant(1), 16_001).await, 9);
    }

    #[tokio::test]
    async fn a_tenant_fills_its_share_and_no_more() {
        let (writes, queue) = WriteQueue::new(WriteShare { weight: 3, bytes: 1 << 20 });
        let queue = queue.taker();
        for _ in 0..3 {
            queue.push(write(1)).expect("room");
        }
        assert_eq!(queue.push(write(1)), Err(NotQueued::Full));
        queue.push(write(2)).expect("another tenant has its own share");
        let (reply, _) = oneshot::channel();
        queue.push(Command::Ping((), reply)).expect("the server's own writes have no share");
        assert_eq!(batch(&queue).await, [None, Some(tenant(1)), Some(tenant(1)), Some(tenant(1)), Some(tenant(2))]);
        queue.push(write(1)).expect("there is room again");
        drop(writes);
        assert_eq!(queue.push(write(1)), Err(NotQueued::Closed));
        assert_eq!(batch(&queue).await.len(), 1, "what was in the queue is taken");
        assert!(!queue.batch(2_000, &mut Vec::new()).await, "then it ends");
    }

    #[tokio::test]
    async fn a_full_share_leaves_room_for_what_workers_report() {
        let (_writes, queue) = WriteQueue::new(WriteShare { weight: 4, bytes: 1 << 20 });
        for _ in 0..4 {
            queue.push(write(1)).expect("room");
        }
        assert_eq!(queue.push(write(1)), Err(NotQueued::Full));
        let heartbeat = || {
            let worker = WorkerName::new("w1").expect("a name");
            let beat = Heartbeat { worker, tenant: Some(tenant(1)), runs: Vec::new(), bare: false };
            Command::Heartbeat(beat, oneshot::channel().0)
        };
        queue.push(heartbeat()).expect("the reserve has room");
        queue.push(heartbeat()).expect("the reserve has room");
        assert_eq!(queue.push(heartbeat()), Err(NotQueued::Full), "the reserve has an end, too");
    }

    /// A write that holds so much memory while it waits.
    fn long(n: u8, bytes: usize) -> Command {
        Command::KeepDefinition((tenant(n), [1; 32], "x".repeat(bytes).into()), oneshot::channel().0)
    }

    /// The same about work that has started.
    fn long_report(n: u8, bytes: usize) -> Command {
        let report = RunReport {
            run: RunId::mint(Timestamp::from_millis(1), [1; 10]),
            job: None,
            worker: WorkerName::new("w1").expect("a name"),
            tenant: Some(tenant(n)),
            fence: None,
            outcome: Outcome::Succeeded,
            error: None,
            result: Some("x".repeat(bytes).into()),
            stored_result: None,
            exit_code: None,
            last_seq: 0,
        };
        Command::Report(vec![report], oneshot::channel().0)
    }

    #[tokio::test]
    async fn long_writes_fill_a_share_too() {
        let (_writes, queue) = WriteQueue::new(WriteShare { weight: 1_000, bytes: 1_000 });
        queue.push(long(1, 600)).expect("room");
        queue.push(long(1, 400)).expect("exactly as much as there is room for");
        assert_eq!(queue.push(long(1, 1)), Err(NotQueued::Full));
        queue.push(long(2, 5_000)).expect("one write alone always fits");
        queue.push(long_report(1, 400)).expect("the reserve has room");
        assert_eq!(queue.push(long_report(1, 101)), Err(NotQueued::Full), "the reserve has an end, too");
        queue.push(long_report(1, 100)).expect("exactly as much as the reserve has");
        assert_eq!(batch(&queue).await.len(), 5);
        queue.push(long(1, 1)).expect("there is room again");
        queue.push(long(1, 999)).expect("there is room again");
    }

    #[tokio::test]
    async fn a_batch_takes_the_servers_own_writes_and_whole_turns_of_tenants() {
        let (_writes, queue) = WriteQueue::new(WriteShare::default());
        for _ in 0..5 {
            queue.push(Command::Ping((), oneshot::channel().0)).expect("room");
        }
        for n in 1..=4 {
            for _ in 0..100 {
                queue.push(write(n)).expect("room");
            }
        }
        let next = async |weight_max: usize| {
            let mut batch = Vec::new();
            assert!(queue.batch(weight_max, &mut batch).await);
            batch.iter().map(Command::tenant).collect::<Vec<_>>()
        };
        let of = |n: u8| vec![Some(tenant(n)); 100];
        assert_eq!(next(3).await, [vec![None; 3], of(1)].concat(), "one turn of a tenant in any case");
        assert_eq!(next(150).await, [vec![None; 2], of(2), of(3)].concat());
        assert!(!queue.is_empty());
        assert_eq!(next(150).await, of(4));
        assert!(queue.is_empty());
        queue.push(Command::Ping((), oneshot::channel().0)).expect("room");
        assert!(!queue.is_empty(), "the server's own count, too");
    }

    /// Whether a committer that waits for writes would be woken now.
    fn wakes_another(queue: &WriteQueue) -> bool {
        pin!(queue.arrived.notified()).as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[tokio::test]
    async fn what_a_batch_leaves_is_for_another_committer() {
        let (_writes, queue) = WriteQueue::new(WriteShare::default());
        let ping = || Command::Ping((), oneshot::channel().0);
        for pair in [[write(1), write(2)], [ping(), ping()], [ping(), write(1)]] {
            let has_own = pair[0].tenant().is_none() && pair[1].tenant().is_some();
            for write in pair {
                queue.push(write).expect("room");
            }
            assert!(wakes_another(&queue), "something has come");
            let mut batch = Vec::new();
            assert!(queue.batch(1, &mut batch).await);
            assert_eq!(batch.len(), if has_own { 2 } else { 1 });
            assert_eq!(wakes_another(&queue), !has_own, "one is left");
            if !has_own {
                assert!(queue.batch(1, &mut batch).await);
                assert!(!wakes_another(&queue), "nothing is left");
            }
        }
    }

    #[tokio::test]
    async fn writes_end_with_the_last_committer() {
        let (_writes, queue) = WriteQueue::new(WriteShare::default());
        let (first, second) = (queue.taker(), queue.taker());
        let (reply, answer) = oneshot::channel();
        queue.push(Command::Ping((), reply)).expect("the queue is open");
        drop(first);
        queue.push(write(1)).expect("one committer is left");
        let panicked = std::thread::spawn(move || {
            let _taker = second;
            panic!("a committer fails");
        });
        assert!(panicked.join().is_err());
        assert!(answer.await.is_err(), "the caller that waits is answered");
        assert_eq!(queue.push(write(1)), Err(NotQueued::Closed));
    }

    #[tokio::test]
    async fn tenants_take_turns_within_a_batch() {
        let (_writes, queue) = WriteQueue::new(WriteShare::default());
        for _ in 0..150 {
            queue.push(write(1)).expect("room");
        }
        for _ in 0..150 {
            queue.push(write(2)).expect("room");
        }
        let order = batch(&queue).await;
        let of = |n: u8, len: usize| vec![Some(tenant(n)); len];
        assert_eq!(order, [of(1, 100), of(2, 100), of(1, 50), of(2, 50)].concat());
    }
}
