//! Jobs: taking them in, looking at them, stopping them.

use std::sync::Arc;

use async_trait::async_trait;
use bowline_model::audit::Author;
use bowline_model::idempotency::{KeyScope, RequestHash};
use bowline_model::{
    JobId, JobPolicy, JobState, JobStatus, Labels, Lane, RunError, RunId, RunStatus, TaskType, TenantId, Timestamp,
    WorkerName,
};

use crate::{NewFleet, NewFlow, StoreResult};

/// Who asked, and under which names the request is known elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    pub actor: Arc<str>,
    /// Where to reach them, for runs of workflows, which keep it. Nothing else does.
    pub email: Option<Arc<str>>,
    pub request_id: Arc<str>,
    /// 32 lower-case hex digits.
    pub trace_id: Option<Arc<str>>,
    pub correlation_id: Option<Arc<str>>,
    /// The whole author, where the request is recorded in the audit trail. Not stored with the job.
    pub author: Option<Arc<Author>>,
}

/// A job to be stored. Its id is made by the caller, so that a lost answer can be asked for by it.
#[derive(Debug, Clone)]
pub struct NewJob {
    pub id: JobId,
    pub tenant: TenantId,
    pub lane: Lane,
    pub task_type: TaskType,
    pub requires: Labels,
    /// Higher goes first within its channel.
    pub priority: i16,
    /// JSON, exactly as the caller wrote it.
    pub payload: Arc<str>,
    /// `None` is the default policy.
    pub policy: Option<Arc<JobPolicy>>,
    pub run_at: Option<Timestamp>,
    /// Keys under which a second ask is the same ask.
    pub keys: Vec<(KeyScope, String)>,
    pub hash: RequestHash,
    pub origin: Origin,
    pub replay_of: Option<JobId>,
    /// The hosts of a command.
    pub fleet: Option<Arc<NewFleet>>,
    /// The run of a workflow.
    pub flow: Option<Arc<NewFlow>>,
}

impl NewJob {
    /// The job, and the jobs that its execution starts in the advance that is stored with it.
    pub fn with_first_children(&self) -> impl Iterator<Item = &Self> {
        let first = self.flow.as_deref().and_then(|flow| flow.first.as_ref());
        std::iter::once(self).chain(first.into_iter().flat_map(|first| &first.children))
    }
}

/// What became of a [`NewJob`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submitted {
    Accepted {
        id: JobId,
        number: i64,
        status: JobStatus,
        at: Timestamp,
    },
    /// The same ask was answered before with this job.
    Replayed {
        id: JobId,
        number: i64,
        status: JobStatus,
        at: Timestamp,
    },
    /// The same ask was answered before with this job, which retention has removed since.
    Pruned {
        id: JobId,
        /// 0 where nobody remembers.
        number: i64,
        /// How it ended, where that is remembered.
        status: Option<JobStatus>,
        at: Timestamp,
    },
    /// The key belongs to another ask.
    Conflict {
        key: String,
        id: JobId,
    },
}

/// A job as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRecord {
    pub id: JobId,
    pub number: i64,
    pub tenant: TenantId,
    pub lane: Lane,
    pub task_type: TaskType,
    pub requires: Labels,
    pub priority: i16,
    pub state: JobState,
    pub policy: JobPolicy,
    pub payload: Option<String>,
    pub result: Option<String>,
    /// The length of a result that is in the object store and not in `result`.
    pub result_bytes: Option<u64>,
    pub error: Option<RunError>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    pub origin: Origin,
    pub idempotency_key: Option<String>,
    pub external_id: Option<String>,
    pub replay_of: Option<JobId>,
    /// What people call a command on hosts: its type, or the first word of what is executed.
    pub command: Option<String>,
    /// What a run of a workflow is a run of.
    pub workflow: Option<String>,
    /// The run of a workflow that began it.
    pub begun_by: Option<JobId>,
    /// What a paused run of a workflow waits for: `sleep`, `approval`, `event` or `debug`.
    pub paused_for: Option<String>,
    /// When it fails if it has not ended; while it has not, and if it has a deadline.
    pub deadline_at: Option<Timestamp>,
}

/// A run as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRecord {
    pub id: RunId,
    pub attempt: u32,
    pub fence: u32,
    pub status: RunStatus,
    pub worker: WorkerName,
    pub claimed_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub error: Option<RunError>,
    /// The last event number the executor named; `acked_seq` is how far they are all here.
    pub last_seq: u64,
    pub acked_seq: u64,
    /// How the process ended, where there was one.
    pub exit_code: Option<i32>,
}

/// Which jobs to list. Newest first.
#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    pub status: Option<JobStatus>,
    pub lane: Option<Lane>,
    pub task_type: Option<TaskType>,
    pub created_after: Option<Timestamp>,
    pub created_before: Option<Timestamp>,
    /// Runs of workflows that are paused for this; next to `status`, either is enough.
    pub paused_for: Option<&'static str>,
    /// Runs of this workflow or blueprint.
    pub workflow: Option<String>,
    /// Jobs of one of these actors, by id; `None` is anybody.
    pub actors: Option<Vec<String>>,
    /// Jobs that require this label: its name and its value.
    pub label: Option<(String, String)>,
    /// Jobs that this run of a workflow began.
    pub parent: Option<JobId>,
    /// No jobs that a run of a workflow began.
    pub no_children: bool,
    /// Jobs with this text in their type, workflow, command, error or one of the names their caller gave them.
    pub text: Option<String>,
}

/// A job as people name it when they do not spell out its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobRef {
    Number(i64),
    /// The end of its id: lower-case hexadecimal digits, without hyphens.
    Suffix(String),
}

impl JobRef {
    /// Of so many of the newest jobs the ids are compared with a suffix.
    pub const SCAN_MAX: i64 = 20_000;
    /// More jobs than this are not named when several fit.
    pub const FOUND_MAX: i64 = 10;
}

/// A page of a list. `next` is where the following page begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T, C> {
    pub items: Vec<T>,
    pub next: Option<C>,
}

/// A person's order about a job.
#[derive(Debug, Clone)]
pub struct JobOrder {
    pub tenant: TenantId,
    pub job: JobId,
    pub by: Author,
    pub reason: Option<String>,
}

/// What became of a [`JobOrder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderAnswer {
    /// It has this status now.
    Done(JobStatus),
    /// It had this status already.
    Unchanged(JobStatus),
    /// It has ended like this, so there is nothing to order.
    Finished(JobStatus),
    /// The order makes no sense for a job that stands here.
    NotFrom(JobStatus),
    /// A person has closed its dead letter: it lives on as another job, or is over for good.
    LetterClosed,
    /// An execution that was approved: a second try repeats the approval, and this person cannot give it.
    NeedsApproval(RetryNeeds),
    NotFound,
}

/// Who could repeat the approval of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryNeeds {
    /// Somebody who has neither started nor changed it.
    OtherPerson,
    /// So many people, who are asked in a fork from before the question.
    People(u32),
}

/// What only the ledger knows about why a job waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitingFacts {
    /// Runs ahead of it in its channel, counted up to [`Self::AHEAD_MAX`].
    pub ahead: u64,
}

impl WaitingFacts {
    pub const AHEAD_MAX: u64 = 10_000;
}

#[async_trait]
pub trait JobStore: Send + Sync {
    /// Stores each job once. The answers are in the order of the jobs.
    async fn submit(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Submitted>>;

    /// The job that was asked for under this key: the same ask, or another one.
    async fn find_asked(
        &self,
        tenant: TenantId,
        scope: KeyScope,
        key: String,
        hash: RequestHash,
    ) -> StoreResult<Option<Submitted>>;

    /// A job and its runs, oldest first.
    async fn find_job(&self, tenant: TenantId, job: JobId) -> StoreResult<Option<(JobRecord, Vec<RunRecord>)>>;

    /// Jobs of a tenant, newest first, without payloads and results. A page may be short although there is a next one:
    /// a filter that fits few jobs is worked off in bounded bites.
    async fn list_jobs(
        &self,
        tenant: TenantId,
        filter: JobFilter,
        before: Option<JobId>,
        limit: u32,
    ) -> StoreResult<Page<JobRecord, JobId>>;

    /// The jobs that are meant, newest first, up to [`JobRef::FOUND_MAX`].
    async fn resolve_job(&self, tenant: TenantId, job: JobRef) -> StoreResult<Vec<JobId>>;

    async fn cancel_job(&self, order: JobOrder) -> StoreResult<OrderAnswer>;

    /// Queues a job that ended badly again, with a fresh budget; of a command, the hosts where it did not succeed.
    async fn retry_job(&self, order: JobOrder) -> StoreResult<OrderAnswer>;

    async fn waiting_facts(&self, tenant: TenantId, job: JobId) -> StoreResult<WaitingFacts>;
}
