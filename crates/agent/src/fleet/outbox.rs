//! What is to be told about runs that have no directory: those that were made up, and those that were not begun.
//!
//! It is not on disk, because nothing happened. What is lost with this process, the server finds out by itself.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_model::{ErrorClass, RunError, RunId, Timestamp};
use bowline_protocol::{ResultStatus, RunEnd, WorkerEvent};
use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::Notify;

/// News of one run.
#[derive(Debug, Default)]
pub struct Story {
    pub fence: u32,
    pub events: Vec<WorkerEvent>,
    /// All of its standard output; an event among `events` names it.
    pub output: Option<Vec<u8>>,
    pub ended: Option<RunEnd>,
}

/// One thing that happened.
pub(crate) fn event(seq: u64, at: Timestamp, data: &impl Serialize) -> WorkerEvent {
    let data = to_raw_value(data).unwrap_or_else(|_| RawValue::NULL.to_owned());
    WorkerEvent { seq, at: Some(at), data }
}

impl Story {
    /// The whole story of a run that was not begun, and why.
    pub fn not_begun(fence: u32, at: Timestamp, code: &str, class: ErrorClass, message: &str) -> Self {
        let data = json!({"kind": "not_started", "code": code, "message": message});
        let error = Some(RunError::new(class, message));
        let ended = RunEnd { status: ResultStatus::Failure, exit_code: None, result: None, error, last_seq: 1 };
        Self { fence, events: vec![event(1, at, &data)], output: None, ended: Some(ended) }
    }

    /// The whole story of a run that was canceled before it began.
    pub fn canceled(fence: u32, at: Timestamp) -> Self {
        let message = "it was canceled before it was started";
        let data = json!({"kind": "not_started", "code": "CANCELED", "message": message});
        let ended = RunEnd { status: ResultStatus::Canceled, exit_code: None, result: None, error: None, last_seq: 1 };
        Self { fence, events: vec![event(1, at, &data)], output: None, ended: Some(ended) }
    }

    fn add(&mut self, later: Self) {
        self.fence = later.fence;
        self.events.extend(later.events);
        self.output = later.output.or(self.output.take());
        self.ended = later.ended.or(self.ended.take());
    }
}

#[derive(Default)]
pub(crate) struct Outbox {
    inner: Mutex<Inner>,
    called: Notify,
}

#[derive(Default)]
struct Inner {
    stories: HashMap<RunId, Story>,
    line: VecDeque<RunId>,
}

impl Outbox {
    /// Adds to what is to be told about a run.
    pub fn tell(&self, run: RunId, story: Story) {
        self.tell_all([(run, story)]);
    }

    pub fn tell_all(&self, stories: impl IntoIterator<Item = (RunId, Story)>) {
        let mut inner = self.inner();
        for (run, story) in stories {
            if let Some(earlier) = inner.stories.get_mut(&run) {
                earlier.add(story);
            } else {
                inner.stories.insert(run, story);
                inner.line.push_back(run);
            }
        }
        drop(inner);
        self.called.notify_one();
    }

    /// Waits until there is something to tell, and takes up to `max` stories, the oldest first.
    pub async fn take(&self, max: usize) -> Vec<(RunId, Story)> {
        loop {
            let called = self.called.notified();
            {
                let mut inner = self.inner();
                let count = inner.line.len().min(max);
                if count > 0 {
                    let runs: Vec<RunId> = inner.line.drain(..count).collect();
                    return runs.into_iter().filter_map(|run| Some((run, inner.stories.remove(&run)?))).collect();
                }
            }
            called.await;
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
