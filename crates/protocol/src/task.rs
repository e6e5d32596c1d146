//! `GET /workers/{id}/tasks`: a long poll that answers with a list of tasks, empty when the wait is over.

use bowline_model::{JobId, Lane, RunId, TaskType, Timestamp, WorkerName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TasksQuery {
    /// At most this many tasks; 1 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max: Option<u32>,
    /// Wait up to this many milliseconds for the first one; 0 unless given, 60000 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 60_000))]
    pub wait: Option<u64>,
}

/// A run, handed to a worker. It is the worker's once it names it in a heartbeat, an event or a result.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// The run. A worker starts a given one at most once, ever.
    pub task_id: RunId,
    pub task_type: TaskType,
    /// What to work on, exactly as it was submitted.
    pub params: Box<serde_json::value::RawValue>,
    pub job_id: JobId,
    pub worker_id: WorkerName,
    pub lane: Lane,
    pub attempt: u32,
    /// Grows with every hand-out of the job. Send it along to whatever you change, and let that refuse older ones.
    pub fence: u32,
    /// The same for every attempt at the job. Send it with every effect, so that a second attempt does not double it.
    pub idempotency_key: String,
    pub timeout_ms: u64,
    /// The values of the server's secrets that the task needs, sealed to the key of this agent, for this task and fence
    /// (HPKE, in base64).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<String>,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// The header for whatever the worker calls (W3C Trace Context): the trace of the job, with this run as the parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
}
