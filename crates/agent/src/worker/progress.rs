//! What a handler says on the way: numbered from 1, kept until the server holds it, sent as often as that takes.
//!
//! A number, once given, is never used for something else. What cannot be kept is refused before it gets a number, so the
//! row has no gaps. Recording never waits: an outage of the server must not slow down the work.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_model::RunId;
use bowline_protocol::{EventsRequest, WorkerEvent};
use serde::Serialize;
use serde_json::value::to_raw_value;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{debug, warn};

use crate::clock;
use crate::error::chain;
use crate::server::client::CallError;
use crate::worker::shared::Shared;

/// One batch: the protocol's limit in number, and half of what a server takes in one body.
const BATCH_MAX: usize = 1_000;
const BATCH_MAX_BYTES: usize = 512 * 1024;
/// One event must fit into a batch.
const EVENT_MAX_BYTES: usize = 256 * 1024;
/// What may wait for the server: of one task, and of all tasks of a worker.
const RUN_MAX_BYTES: usize = 8 * 1024 * 1024;
const WORKER_MAX_BYTES: usize = 128 * 1024 * 1024;
/// What an event costs besides its text.
const OVERHEAD_BYTES: usize = 64;

/// Why an event was not kept. It got no number.
#[derive(Debug, thiserror::Error)]
pub enum ProgressError {
    #[error("it is not JSON")]
    NotJson(#[source] serde_json::Error),
    #[error("it has {0} bytes, and {EVENT_MAX_BYTES} are allowed")]
    TooLarge(usize),
    #[error("too much is waiting to be sent already")]
    Full,
    #[error("the task has ended, or the server wants no more of it")]
    Closed,
}

/// The events of one task.
pub(crate) struct Progress {
    run: RunId,
    fence: u32,
    unheard_bytes: Arc<AtomicUsize>,
    state: Mutex<State>,
    /// Rings when there is something to do or something was done.
    changed: watch::Sender<()>,
    complained: AtomicBool,
}

#[derive(Default)]
struct State {
    last_seq: u64,
    unheard: VecDeque<WorkerEvent>,
    unheard_bytes: usize,
    /// The handler has ended.
    closed: bool,
    /// The server does not want them.
    refused: bool,
    /// The last batch did not get through.
    in_trouble: bool,
}

fn cost(event: &WorkerEvent) -> usize {
    event.data.get().len() + OVERHEAD_BYTES
}

impl Progress {
    pub fn new(run: RunId, fence: u32, unheard_bytes: Arc<AtomicUsize>) -> Arc<Self> {
        let (state, complained) = (Mutex::default(), AtomicBool::new(false));
        Arc::new(Self { run, fence, unheard_bytes, state, changed: watch::Sender::new(()), complained })
    }

    /// Keeps an event, and says under which number.
    pub fn record(&self, data: impl Serialize) -> Result<u64, ProgressError> {
        let data = to_raw_value(&data).map_err(ProgressError::NotJson)?;
        let size = data.get().len();
        if size > EVENT_MAX_BYTES {
            return Err(ProgressError::TooLarge(size));
        }
        let mut state = self.state();
        if state.closed || state.refused {
            return Err(ProgressError::Closed);
        }
        let size = size + OVERHEAD_BYTES;
        let all = self.unheard_bytes.load(Ordering::Relaxed);
        if state.unheard_bytes + size > RUN_MAX_BYTES || all + size > WORKER_MAX_BYTES {
            return Err(ProgressError::Full);
        }
        state.last_seq += 1;
        state.unheard_bytes += size;
        self.unheard_bytes.fetch_add(size, Ordering::Relaxed);
        let seq = state.last_seq;
        state.unheard.push_back(WorkerEvent { seq, at: Some(clock::now()), data });
        drop(state);
        self.changed.send_replace(());
        Ok(seq)
    }

    /// Tells the log about a dropped event, once for each task.
    pub fn complain(&self, error: &ProgressError) {
        if !self.complained.swap(true, Ordering::Relaxed) {
            let run = self.run;
            warn!(run.id = %run, "progress of task {run} was dropped: {}", chain(error));
        }
    }

    /// No more events. The last number that was given; 0 for none.
    pub fn close(&self) -> u64 {
        let mut state = self.state();
        state.closed = true;
        let last = state.last_seq;
        drop(state);
        self.changed.send_replace(());
        last
    }

    /// Waits until the server holds everything, or it turns out that this takes longer.
    pub async fn settled(&self) {
        let mut changed = self.changed.subscribe();
        loop {
            {
                let state = self.state();
                if state.unheard.is_empty() || state.in_trouble {
                    return;
                }
            }
            // The sender lives in `self`.
            let _ = changed.changed().await;
        }
    }

    /// Sends until the task is closed and everything is held. While one batch is under way the next one gathers.
    pub async fn ship(&self, shared: &Shared) {
        let mut backoff = shared.link.backoff();
        let mut changed = self.changed.subscribe();
        loop {
            let Some(batch) = self.next_batch() else {
                if self.state().closed {
                    return;
                }
                tokio::select! {
                    () = shared.link.end.cancelled() => return,
                    _ = changed.changed() => continue,
                }
            };
            let answer = tokio::select! {
                () = shared.link.end.cancelled() => return self.abandon(),
                answer = shared.link.client.events(self.run, &batch) => answer,
            };
            let run = self.run;
            let pause = match answer {
                // What is acknowledged may be forgotten, nothing else: also not what was just taken without an error.
                Ok(ack) if self.forget(ack.acknowledged) => {
                    backoff.reset();
                    continue;
                }
                Ok(_) => backoff.pause(),
                Err(CallError::Refused(refusal)) if refusal.status == 401 => {
                    shared.link.fail_unauthorized(refusal);
                    return;
                }
                Err(error) if error.is_passing() => {
                    debug!(run.id = %run, "progress of task {run} cannot be sent yet: {}", chain(&error));
                    backoff.after(&error)
                }
                Err(error) => {
                    warn!(run.id = %run, "the server refuses the progress of task {run}: {}", chain(&error));
                    self.refuse();
                    continue;
                }
            };
            self.state().in_trouble = true;
            self.changed.send_replace(());
            tokio::select! {
                () = shared.link.end.cancelled() => return self.abandon(),
                () = sleep(pause) => {}
            }
        }
    }

    fn next_batch(&self) -> Option<EventsRequest> {
        let state = self.state();
        let mut bytes = 0;
        let events: Vec<WorkerEvent> = state
            .unheard
            .iter()
            .take(BATCH_MAX)
            .take_while(|event| {
                bytes += cost(event);
                bytes <= BATCH_MAX_BYTES
            })
            .cloned()
            .collect();
        (!events.is_empty()).then_some(EventsRequest { fence: Some(self.fence), events })
    }

    /// The server holds everything up to `seq`. Whether that was news.
    fn forget(&self, seq: u64) -> bool {
        let mut state = self.state();
        let before = state.unheard.len();
        while state.unheard.front().is_some_and(|event| event.seq <= seq) {
            let size = state.unheard.pop_front().as_ref().map_or(0, cost);
            state.unheard_bytes -= size;
            self.unheard_bytes.fetch_sub(size, Ordering::Relaxed);
        }
        let news = state.unheard.len() < before;
        state.in_trouble = !news;
        drop(state);
        self.changed.send_replace(());
        news
    }

    fn refuse(&self) {
        self.state().refused = true;
        self.forget(u64::MAX);
    }

    fn abandon(&self) {
        let (run, left) = (self.run, self.state().unheard.len());
        warn!(run.id = %run, "{left} progress events of task {run} were not delivered before the worker had to leave");
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.unheard_bytes.fetch_sub(self.state().unheard_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use bowline_model::Timestamp;
    use serde_json::json;

    use super::*;

    fn progress() -> Arc<Progress> {
        Progress::new(RunId::mint(Timestamp::from_millis(1), [1; 10]), 3, Arc::default())
    }

    fn batch(progress: &Progress) -> Vec<u64> {
        progress.next_batch().map(|b| b.events.iter().map(|e| e.seq).collect()).unwrap_or_default()
    }

    #[test]
    fn events_are_numbered_from_one_and_kept_until_acknowledged() {
        let progress = progress();
        for n in 1..=3 {
            assert_eq!(progress.record(json!({ "step": n })).unwrap(), n);
        }
        assert_eq!(batch(&progress), [1, 2, 3]);
        assert!(progress.forget(2));
        assert_eq!(batch(&progress), [3]);
        assert!(!progress.forget(2), "no news");
        assert_eq!(batch(&progress), [3]);
        assert!(progress.forget(3));
        assert!(progress.next_batch().is_none());
        assert_eq!(progress.unheard_bytes.load(Ordering::Relaxed), 0);
        assert_eq!(progress.close(), 3);
        assert!(matches!(progress.record(1), Err(ProgressError::Closed)));
    }

    #[test]
    fn what_cannot_be_kept_gets_no_number() {
        let progress = progress();
        assert!(matches!(progress.record("x".repeat(EVENT_MAX_BYTES)), Err(ProgressError::TooLarge(_))));
        let large = "x".repeat(EVENT_MAX_BYTES - 2);
        let mut kept = 0;
        while progress.record(&large).is_ok() {
            kept += 1;
        }
        assert!(matches!(progress.record(&large), Err(ProgressError::Full)));
        assert_eq!(progress.close(), kept);
        assert_eq!(batch(&progress), [1], "a second one would make the body too large");
        let all = Arc::clone(&progress.unheard_bytes);
        drop(progress);
        assert_eq!(all.load(Ordering::Relaxed), 0, "what is gone does not count");
    }
}
