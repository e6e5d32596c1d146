//! How the API shows things. One enum inside; this face uses the words its clients know.

use bowline_engine::results;
use bowline_model::{Event, JobPolicy, JobStatus, Labels, Lane, RunError, RunStatus, TenantId, Timestamp};
use bowline_store::{JobRecord, RunRecord};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::actors::ActorView;

/// The word for a job's status on this face. `succeeded` is `success` here.
pub const fn job_word(status: JobStatus) -> &'static str {
    match status {
        JobStatus::Succeeded => "success",
        other => other.as_str(),
    }
}

/// The word for a run's status on this face.
pub const fn run_word(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Succeeded => "success",
        other => other.as_str(),
    }
}

/// Reads either word.
pub fn job_status(word: &str) -> Result<JobStatus, bowline_model::job::NotAStatus> {
    if word == "success" { Ok(JobStatus::Succeeded) } else { word.parse() }
}

/// JSON that was stored as text, shown as it is.
pub fn raw(text: Option<String>) -> Option<Box<RawValue>> {
    text.and_then(|text| RawValue::from_string(text).ok())
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct JobView {
    pub id: bowline_model::JobId,
    /// The same as `id`.
    pub job_id: bowline_model::JobId,
    /// For people, and for clients that want whole numbers.
    pub number: i64,
    pub tenant_id: TenantId,
    pub r#type: bowline_model::TaskType,
    /// What people call it: its type; for a command on hosts the command's, or the first word of what is executed; for a run
    /// of a workflow or a blueprint `workflow` and its name.
    pub title: String,
    /// Who asked for it; for a job that a workflow, schedule or trigger started, on whose behalf.
    pub actor: ActorView,
    pub lane: Lane,
    pub priority: i16,
    /// queued, running, success, failed, dead, canceled, pending, canceling, paused, awaiting_approval, error.
    pub status: &'static str,
    /// The ledger's own word for the same.
    pub state: JobStatus,
    /// What a paused execution of a workflow waits for: sleep, approval, event or debug.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_for: Option<String>,
    pub attempts: u32,
    pub max_attempts: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    /// When it is due, while it waits for a moment.
    pub run_at: Option<Timestamp>,
    /// When it fails if it has not ended; while it has not, and if it has a deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// Where a result is that is too large to be shown here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_ref: Option<ResultRef>,
    pub error: Option<RunError>,
    pub idempotency_key: Option<String>,
    pub external_id: Option<String>,
    pub correlation_id: Option<String>,
    pub trace_id: Option<String>,
    pub request_id: String,
    pub replay_of: Option<bowline_model::JobId>,
    /// The run of a workflow that began it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begun_by: Option<bowline_model::JobId>,
    pub labels: Labels,
    pub policy: JobPolicy,
}

/// A result that is kept in the object store.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ResultRef {
    /// Its length, as JSON.
    pub bytes: u64,
    /// `GET` this for the result itself.
    pub path: String,
}

impl JobView {
    /// `actor` is who the job's origin names.
    pub fn new(job: JobRecord, actor: ActorView) -> Self {
        let request_id = job.origin.request_id.to_string();
        Self {
            id: job.id,
            job_id: job.id,
            number: job.number,
            tenant_id: job.tenant,
            title: match (job.command, job.workflow) {
                (Some(command), _) => command,
                (None, Some(workflow)) => format!("workflow {workflow}"),
                (None, None) => job.task_type.to_string(),
            },
            r#type: job.task_type,
            actor,
            lane: job.lane,
            priority: job.priority,
            status: job_word(job.state.status),
            state: job.state.status,
            paused_for: job.paused_for,
            attempts: job.state.attempts,
            max_attempts: job.policy.attempts_max(),
            created_at: job.created_at,
            updated_at: job.updated_at,
            finished_at: job.finished_at,
            run_at: job.state.due_at,
            deadline_at: job.deadline_at,
            payload: raw(job.payload),
            result: raw(job.result),
            result_ref: job.result_bytes.map(|bytes| ResultRef { bytes, path: results::path(job.id) }),
            error: job.error,
            idempotency_key: job.idempotency_key,
            external_id: job.external_id,
            correlation_id: Some(job.origin.correlation_id.map_or_else(|| request_id.clone(), |id| id.to_string())),
            trace_id: job.origin.trace_id.map(|id| id.to_string()),
            request_id,
            replay_of: job.replay_of,
            begun_by: job.begun_by,
            labels: job.requires,
            policy: job.policy,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct RunView {
    pub id: bowline_model::RunId,
    pub attempt: u32,
    pub fence: u32,
    pub status: &'static str,
    pub state: RunStatus,
    pub worker_id: bowline_model::WorkerName,
    pub claimed_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub error: Option<RunError>,
    /// How its process ended, where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The last number its worker gave to an event.
    pub last_seq: u64,
    /// The ledger holds its events up to here without a gap.
    pub acknowledged_seq: u64,
    /// Events of this run are still missing.
    pub incomplete: bool,
}

impl From<RunRecord> for RunView {
    fn from(run: RunRecord) -> Self {
        Self {
            id: run.id,
            attempt: run.attempt,
            fence: run.fence,
            status: run_word(run.status),
            state: run.status,
            worker_id: run.worker,
            claimed_at: run.claimed_at,
            started_at: run.started_at,
            finished_at: run.finished_at,
            error: run.error,
            exit_code: run.exit_code,
            last_seq: run.last_seq,
            acknowledged_seq: run.acked_seq,
            incomplete: run.acked_seq < run.last_seq,
        }
    }
}

/// An event as the stream and the lists show it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EventView {
    pub event_id: bowline_model::EventId,
    pub ts: Timestamp,
    pub tenant_id: TenantId,
    pub severity: bowline_model::Severity,
    pub r#type: bowline_model::EventKind,
    pub message: &'static str,
    /// Who did it, where a person, a service or a worker did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<ActorView>,
    pub correlation_id: Option<String>,
    pub trace_id: Option<String>,
    pub data: EventDataView,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct EventDataView {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<bowline_model::JobId>,
    /// The host of the job it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<bowline_model::HostName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The other job of a replay: the new one on the old, the old one on the new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linked_job_id: Option<bowline_model::JobId>,
    #[serde(flatten)]
    pub rest: bowline_model::event::EventData,
}

impl EventView {
    /// `actor` is who the event names as having done it.
    pub fn new(event: Event, actor: Option<ActorView>) -> Self {
        let mut rest = event.data;
        let linked_job_id = rest.job_id.take();
        let host = event.host.or(rest.host.take());
        Self {
            event_id: event.id,
            ts: event.at,
            tenant_id: event.tenant,
            severity: event.kind.severity(),
            r#type: event.kind,
            message: event.kind.message(),
            actor,
            correlation_id: event.correlation_id,
            trace_id: event.trace_id,
            data: EventDataView { job_id: event.job, host, fence: event.fence, seq: event.seq, linked_job_id, rest },
        }
    }
}
