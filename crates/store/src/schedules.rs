//! Schedules: how far each has been considered, and what came of it.
//!
//! *Considered*: an instant about which it has been decided whether a job is made for it. How far that is, is one moment for
//! each schedule; it moves by compare-and-set, in the transaction that stores the jobs. So however many servers look, each
//! instant gets its jobs once, and no job is stored for an instant that will be considered again.

use std::sync::Arc;

use async_trait::async_trait;
use bowline_model::audit::Author;
use bowline_model::{JobId, ResourceName, TenantId, Timestamp};

use crate::{NewJob, Page, StoreResult, Submitted};

/// A schedule with what has become of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleRecord {
    /// The number of its resource.
    pub resource: i64,
    pub tenant: TenantId,
    pub name: ResourceName,
    /// The version that counts; the latest one if none was activated yet.
    pub version: u32,
    /// JSON.
    pub spec: Arc<str>,
    /// Who applied or activated it last: whose rights it has, and who asks for its jobs.
    pub owner: String,
    /// `None` if no version was activated yet.
    pub state: Option<ScheduleState>,
}

/// What has become of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleState {
    /// Every instant up to here has been considered.
    pub seen: Timestamp,
    /// When somebody should look again.
    pub due_at: Option<Timestamp>,
    /// The last instant that got a job, and when it was stored.
    pub fired: Option<(Timestamp, Timestamp)>,
    /// The last job, also if a person started it.
    pub job: Option<JobId>,
    pub refused: Option<Refusal>,
    /// Instants that were missed and got no job, since the schedule exists.
    pub missed: u64,
    /// Instants that got no job because the last one was not over.
    pub passed_over: u64,
}

/// An instant for which nothing could be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub instant: Timestamp,
    pub at: Timestamp,
    pub why: String,
}

/// Schedules at which somebody should look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueSchedules {
    /// Those that are due, longest first.
    pub due: Vec<ScheduleRecord>,
    /// When the next one is.
    pub next_at: Option<Timestamp>,
    /// The ledger's own time, by which that is so.
    pub now: Timestamp,
}

/// What was decided about the instants of one schedule after `seen`, up to `to`.
#[derive(Debug, Clone)]
pub struct Firing {
    pub resource: i64,
    pub tenant: TenantId,
    pub name: ResourceName,
    pub version: u32,
    pub seen: Timestamp,
    pub to: Timestamp,
    /// When to look again.
    pub due_at: Option<Timestamp>,
    /// A job for each instant that gets one, oldest first.
    pub jobs: Vec<(Timestamp, NewJob)>,
    /// At most one job at a time: nothing is stored while the last one is not over.
    pub alone: bool,
    pub missed: u64,
    /// The last instant for which no job could be made, and why.
    pub refused: Option<(Timestamp, String)>,
}

/// What became of a [`Firing`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fired {
    Done {
        jobs: Vec<Submitted>,
        passed_over: u64,
    },
    /// Somebody else considered these instants, or the schedule was changed, or it is gone. Nothing was stored.
    Overtaken,
}

/// A person's order to start what a schedule starts, now.
#[derive(Debug, Clone)]
pub struct Trigger {
    pub resource: i64,
    pub name: ResourceName,
    pub version: u32,
    pub job: NewJob,
    pub alone: bool,
    pub by: Author,
    pub reason: Option<String>,
}

/// What became of a [`Trigger`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Triggered {
    Started(Submitted),
    /// The last job is not over, and the schedule has at most one at a time.
    Busy(JobId),
    /// The schedule was changed meanwhile, or is gone.
    Overtaken,
}

#[async_trait]
pub trait ScheduleStore: Send + Sync {
    /// The schedules of all tenants but these that are due, up to a limit.
    async fn due_schedules(&self, limit: u32, except: Vec<TenantId>) -> StoreResult<DueSchedules>;

    /// Notes what was considered and stores the jobs, each firing by itself. The answers are in the order of the firings.
    async fn fire_schedules(&self, firings: Vec<Firing>) -> StoreResult<Vec<Fired>>;

    async fn trigger_schedule(&self, trigger: Trigger) -> StoreResult<Triggered>;

    async fn find_schedule(&self, tenant: TenantId, name: ResourceName) -> StoreResult<Option<ScheduleRecord>>;

    /// Schedules of a tenant by name.
    async fn list_schedules(
        &self,
        tenant: TenantId,
        after: Option<ResourceName>,
        limit: u32,
    ) -> StoreResult<Page<ScheduleRecord, ResourceName>>;
}
