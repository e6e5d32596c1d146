//! Keeping the ledger in order: health, figures, retention, proof.

use async_trait::async_trait;
use bowline_model::audit::Author;
use bowline_model::{Lane, RunId, TenantId, Timestamp};

use crate::{ClockAccepted, ClockStatus, StoreResult};

/// How much waits in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneDepth {
    pub lane: Lane,
    pub queued: u64,
    pub scheduled: u64,
    pub running: u64,
    pub dead: u64,
}

/// How long things are kept, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    pub finished_jobs_ms: i64,
    pub events_ms: i64,
}

/// What retention removed in one bite.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pruned {
    pub jobs: u64,
    pub events: u64,
    pub keys: u64,
    /// Definitions of workflows that no run is pinned to any more, and that are not what a resource says now.
    pub definitions: u64,
    /// Runs whose output is in the blob store, and of which the ledger now knows no more.
    pub outputs: Vec<RunId>,
    /// Where the next bite begins; `None` when everything old enough has been looked at.
    pub next: Option<PruneMark>,
}

/// How far a sweep has come, through the jobs and through the definitions. The default is the beginning of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PruneMark {
    /// The number of a job.
    pub job: i64,
    /// What a definition is called.
    pub definition: i64,
}

/// What `verify` found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verified {
    pub jobs: u64,
    pub events: u64,
    pub runs: u64,
    /// Records of the audit trail.
    pub audit: u64,
    /// Sentences, each naming the job or run it is about. Empty is good.
    pub faults: Vec<String>,
}

#[async_trait]
pub trait MaintenanceStore: Send + Sync {
    /// Whether a write would be accepted now.
    async fn ping(&self) -> StoreResult<()>;
    /// What waits where; of one tenant, or of all for `None`.
    async fn lane_depths(&self, tenant: Option<TenantId>) -> StoreResult<Vec<LaneDepth>>;
    /// Looks at one bite of the jobs and definitions after `from`, oldest first, and removes what is older than its time, and
    /// what nothing needs any more.
    async fn prune(&self, retention: Retention, from: PruneMark) -> StoreResult<Pruned>;
    /// Compares every job with the fold of its events, and every waiting row with its job, and walks the audit chains. Stops after `faults_max`.
    async fn verify(&self, faults_max: usize) -> StoreResult<Verified>;
    /// The ledger's own time, by which leases are judged.
    async fn now(&self) -> StoreResult<Timestamp>;
    /// The clock that decides, and whether it is believed.
    fn clock_status(&self) -> ClockStatus;
    /// Notes how late it is, so that the next start can tell whether its clock is far away, and hears whether another server
    /// accepted the clock.
    async fn note_time(&self) -> StoreResult<ClockStatus>;
    /// A person says that the clock is right. Leases go on as they stood; what waits for a later time than it now is only
    /// because the clock was wrong waits no longer.
    async fn accept_clock(&self, by: Author, reason: Option<String>) -> StoreResult<ClockAccepted>;
    /// Commands waiting for the committer, and how many may wait.
    fn backlog(&self) -> (usize, usize);
    /// Writes everything out and stops. Later calls are refused.
    async fn close(&self);
}
