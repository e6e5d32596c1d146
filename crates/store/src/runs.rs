//! Runs: handing them out, hearing of them, giving them up.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bowline_model::fleet::{HostLock, SecretIdentity};
use bowline_model::host::Connection;
use bowline_model::lane::LaneWeights;
use bowline_model::lease::LeaseTimes;
use bowline_model::worker::{Abilities, Strategy};
use bowline_model::{
    HostName, JobId, JobStatus, Lane, Outcome, RunError, RunId, RunStatus, TaskType, TenantId, Timestamp, WorkerName,
};

use crate::{StoreResult, StoredResult};

/// A worker that asks for runs.
#[derive(Debug, Clone)]
pub struct Claimant {
    pub worker: WorkerName,
    /// Whose runs it may have; `None` is everybody's, for the workers inside the server.
    pub tenant: Option<TenantId>,
    /// Tenants that have their share of this worker already: nothing of theirs is handed out to it now.
    pub passes_over: Arc<[TenantId]>,
    pub abilities: Arc<Abilities>,
    pub wants: u32,
    pub busy: u32,
    pub slots: u32,
    /// The hand-out itself is the confirmation: the worker lives in this process.
    pub accepts_at_once: bool,
}

/// The rules of a claim.
#[derive(Debug, Clone, Copy)]
pub struct ClaimRules {
    pub weights: LaneWeights,
    pub strategy: Strategy,
}

/// A run that was handed out.
#[derive(Debug, Clone)]
pub struct ClaimedRun {
    pub run: RunId,
    pub job: JobId,
    pub tenant: TenantId,
    pub worker: WorkerName,
    pub lane: Lane,
    pub task_type: TaskType,
    pub payload: Arc<str>,
    pub attempt: u32,
    pub fence: u32,
    pub timeout_ms: u64,
    pub created_at: Timestamp,
    pub claimed_at: Timestamp,
    pub trace_id: Option<Arc<str>>,
    pub correlation_id: Option<Arc<str>>,
    /// The host it is for. The payload is then the whole command's.
    pub unit: Option<Arc<ClaimedUnit>>,
}

/// One host of a command, handed out.
#[derive(Debug, Clone)]
pub struct ClaimedUnit {
    /// The command; [`ClaimedRun::job`] is the unit itself.
    pub command: JobId,
    pub host_id: i64,
    pub host: HostName,
    /// Grows with every hand-out that wants the host alone; those that share it have the same. Whoever acts there must refuse
    /// older ones.
    pub host_fence: i64,
    pub connection: Connection,
    pub lock: HostLock,
    /// JSON: what the command wants to know about the host.
    pub scope: Option<Arc<str>>,
    /// Of a command that was approved: what its secrets were then. Whoever reads one compares it again.
    pub approved_secrets: Option<Arc<BTreeMap<String, Option<SecretIdentity>>>>,
}

/// How a run ended, by the word of its worker.
#[derive(Debug, Clone)]
pub struct RunReport {
    pub run: RunId,
    /// Checked when the worker names it.
    pub job: Option<JobId>,
    pub worker: WorkerName,
    /// `None` is everybody's, for the workers inside the server.
    pub tenant: Option<TenantId>,
    /// Checked when the worker names it.
    pub fence: Option<u32>,
    pub outcome: Outcome,
    pub error: Option<RunError>,
    /// JSON.
    pub result: Option<Arc<str>>,
    /// The result, if it is too large for the ledger; then `result` is `None`.
    pub stored_result: Option<StoredResult>,
    /// How the process ended, where there was one.
    pub exit_code: Option<i32>,
    /// The last number the worker gave to an event of this run; 0 for none.
    pub last_seq: u64,
}

/// What became of a [`RunReport`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportAnswer {
    /// The run has ended, and the job stands here now.
    Recorded(JobStatus),
    /// The same report was recorded before.
    Duplicate,
    /// The lease was gone, but nobody else had begun: the job took this outcome.
    Corrected(JobStatus),
    /// The lease was gone. The attempt's record took the outcome (`evidence`), the job did not.
    Stale {
        evidence: bool,
    },
    /// The run ended before, in another way.
    Finished(RunStatus),
    /// Not a run of this worker.
    NotYours,
    NotFound,
}

/// A worker's sign of life.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    pub worker: WorkerName,
    pub tenant: Option<TenantId>,
    /// The runs it is at. A worker that never named one is at all runs it was given.
    pub runs: Vec<RunId>,
    /// The heartbeat named no run, and neither did any before it.
    pub bare: bool,
}

/// What a worker should know about one of its runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeatAnswer {
    /// Go on.
    Renewed,
    /// Stop: somebody wants it canceled.
    Cancel,
    /// Stop: the run is no longer yours.
    Stale,
}

/// An event a worker told about its run.
#[derive(Debug, Clone)]
pub struct ToldEvent {
    /// From 1, without gaps in the end; they may arrive in any order and more than once.
    pub seq: u64,
    pub at: Option<Timestamp>,
    /// JSON.
    pub detail: Arc<str>,
}

/// A batch of them.
#[derive(Debug, Clone)]
pub struct ToldEvents {
    pub run: RunId,
    pub worker: WorkerName,
    pub tenant: Option<TenantId>,
    pub fence: Option<u32>,
    pub events: Vec<ToldEvent>,
}

/// The details of all events of one run have no more bytes than this.
pub const EVENT_BYTES_MAX: u64 = 16 << 20;

/// What became of [`ToldEvents`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TellAnswer {
    /// The ledger holds 1..=`acked` without a gap. `added` of this batch were new; `owner` is false when the lease is gone
    /// and the events were kept as evidence only.
    Held {
        acked: u64,
        added: u64,
        owner: bool,
    },
    /// This number was used before for something else.
    SeqConflict(u64),
    /// The details of its events would have more than [`EVENT_BYTES_MAX`] bytes together. None of the batch was kept.
    Full,
    /// A fence that is not this run's.
    Stale,
    NotYours,
    NotFound,
}

/// Runs that one round of the reaper names; the others are counted.
pub const REAPED_NAMED_MAX: usize = 20;

/// What the reaper did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reaped {
    pub lost: u64,
    pub returned: u64,
    pub overdue: u64,
    /// Of those that were overdue, how many a worker had that has never named a run.
    pub unnamed: u64,
    pub active: u64,
    /// The first runs that were given up, at most [`REAPED_NAMED_MAX`].
    pub runs: Vec<ReapedRun>,
}

impl Reaped {
    /// How many runs were given up.
    pub const fn given_up(&self) -> u64 {
        self.lost + self.returned + self.overdue
    }

    /// The numbers alone.
    #[must_use]
    pub fn counts(self) -> Self {
        Self { runs: Vec::new(), ..self }
    }
}

/// A run that the reaper gave up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReapedRun {
    pub run: RunId,
    /// The job; of a command's run on a host, the command.
    pub job: JobId,
    pub worker: String,
    pub host: Option<String>,
    /// lost, unconfirmed or overdue.
    pub verdict: &'static str,
}

/// What the timer did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Promoted {
    pub moved: u64,
    /// Jobs that failed because their deadline passed.
    pub expired: u64,
    /// When to look again.
    pub next_due_at: Option<Timestamp>,
}

/// A time in which a worker that spoke would have been heard.
///
/// It ends when the judgement is asked for, not when it is carried out: a ledger that is slow to judge was slow to hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listened {
    pub since: Timestamp,
    pub until: Timestamp,
}

#[async_trait]
pub trait RunStore: Send + Sync {
    /// Hands out waiting runs to the claimants, with leases, in one transaction.
    async fn claim(&self, claimants: Vec<Claimant>, rules: ClaimRules) -> StoreResult<Vec<ClaimedRun>>;

    /// The same, but where nothing waits it stays until something is queued here, and takes it in the same transaction.
    /// There is one such claim at a time: a second one ends the first, which is answered with nothing.
    async fn claim_when_queued(&self, claimants: Vec<Claimant>, rules: ClaimRules) -> StoreResult<Vec<ClaimedRun>>;

    /// Ends that claim. It is answered with nothing, or with what was taken for it just now.
    fn withdraw_claim(&self);

    /// Looks for work that other servers queued. Whether there was any that was not known.
    async fn find_work(&self) -> StoreResult<bool>;

    /// Records how runs ended. The answers are in the order of the reports.
    async fn report(&self, reports: Vec<RunReport>) -> StoreResult<Vec<ReportAnswer>>;

    /// Renews leases. The answers are in the order of the runs.
    async fn heartbeat(&self, beat: Heartbeat) -> StoreResult<Vec<(RunId, BeatAnswer)>>;

    /// Keeps what a worker told about its run.
    async fn tell(&self, told: ToldEvents) -> StoreResult<TellAnswer>;

    /// Keeps what a worker told about its runs, and then records how some of them ended, in one transaction. The answers
    /// are in the order of the questions.
    async fn ship(
        &self,
        told: Vec<ToldEvents>,
        reports: Vec<RunReport>,
    ) -> StoreResult<(Vec<TellAnswer>, Vec<ReportAnswer>)>;

    /// Gives back runs that this worker was handed and never saw, because the answer could not be delivered.
    async fn give_back(&self, runs: Vec<RunId>) -> StoreResult<()>;

    /// Judges every lease: silent ones are lost, unconfirmed ones return, overdue ones time out. Nobody is judged by
    /// silence from before or after the time we listened.
    async fn reap(&self, times: LeaseTimes, listened: Listened) -> StoreResult<Reaped>;

    /// Queues up to `limit` jobs whose moment has come.
    async fn promote(&self, limit: u32) -> StoreResult<Promoted>;
}
