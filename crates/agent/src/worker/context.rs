//! What a handler is given: its task, a way to be told to stop, and a way to say how far it is.

use std::sync::Arc;
use std::time::Duration;

use bowline_model::{JobId, Lane, RunId, TaskType, Timestamp};
use bowline_protocol::Task;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::worker::lease::Lease;
use crate::worker::progress::{Progress, ProgressError};
use crate::worker::task_error::TaskError;

/// One task, as its handler sees it. Cheap to clone; clones speak about the same task.
#[derive(Clone)]
pub struct TaskContext {
    task: Arc<Task>,
    lease: Arc<Lease>,
    progress: Arc<Progress>,
    ends_at: Instant,
}

impl TaskContext {
    pub(crate) fn new(task: Arc<Task>, lease: Arc<Lease>, progress: Arc<Progress>, ends_at: Instant) -> Self {
        Self { task, lease, progress, ends_at }
    }

    pub fn task_id(&self) -> RunId {
        self.task.task_id
    }

    pub fn job_id(&self) -> JobId {
        self.task.job_id
    }

    pub fn task_type(&self) -> &TaskType {
        &self.task.task_type
    }

    pub fn lane(&self) -> Lane {
        self.task.lane
    }

    /// What to work on, exactly as it was submitted.
    pub fn raw_params(&self) -> &RawValue {
        &self.task.params
    }

    /// What to work on, as a type. Params of another shape are a permanent failure: they will not change by trying again.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, TaskError> {
        serde_json::from_str(self.task.params.get())
            .map_err(|error| TaskError::permanent(format!("the params are not what this task takes: {error}")))
    }

    /// The number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.task.attempt
    }

    /// Grows with every hand-out of the job. Send it along to whatever you change, and let that refuse older ones.
    pub fn fence(&self) -> u32 {
        self.task.fence
    }

    /// The same for every attempt at the job. Send it with every effect, so that a second attempt does not double it.
    pub fn idempotency_key(&self) -> &str {
        &self.task.idempotency_key
    }

    /// When the job was submitted.
    pub fn created_at(&self) -> Timestamp {
        self.task.created_at
    }

    pub fn trace_id(&self) -> Option<&str> {
        self.task.trace_id.as_deref()
    }

    pub fn correlation_id(&self) -> Option<&str> {
        self.task.correlation_id.as_deref()
    }

    /// How much time is left before the handler is stopped.
    pub fn time_left(&self) -> Duration {
        self.ends_at.saturating_duration_since(Instant::now())
    }

    /// Rings when the handler should stop: somebody canceled the job, the task is not ours any more, its time is over, or
    /// the worker has to leave. Return any error then, such as [`TaskError::stopped`]; `Ok` says that the work was
    /// finished all the same. What the handler started on threads of its own must watch this too.
    pub fn cancellation(&self) -> &CancellationToken {
        self.lease.cancellation()
    }

    /// Waits until the handler should stop.
    pub async fn canceled(&self) {
        self.cancellation().cancelled().await;
    }

    pub fn is_canceled(&self) -> bool {
        self.cancellation().is_cancelled()
    }

    /// Whether, by our own clock and with a margin, this task is still ours. Worth asking before an effect that must
    /// not happen twice and cannot carry the fence or the idempotency key.
    pub fn holds_lease(&self) -> bool {
        self.lease.is_held(Instant::now())
    }

    /// Says how far the work is. Never waits and never fails the work: events are numbered, kept, and sent until the
    /// server holds them. What cannot be kept is dropped with a warning; [`Self::try_progress`] tells.
    pub fn progress(&self, data: impl Serialize) {
        if let Err(error) = self.try_progress(data) {
            self.progress.complain(&error);
        }
    }

    /// The same, and says under which number the event was kept, or why it was not.
    pub fn try_progress(&self, data: impl Serialize) -> Result<u64, ProgressError> {
        self.progress.record(data)
    }
}
