//! Commands on hosts: what was asked, how far it has come, who waits for which host, who must approve.

use std::sync::Arc;

use async_trait::async_trait;
use bowline_model::audit::Author;
use bowline_model::fleet::{ApprovalRefused, ApprovalState, Decided, HostDigest, HostLock, Named, Rollout, Tally};
use bowline_model::idempotency::RequestHash;
use bowline_model::{
    HostName, InventoryName, JobId, JobState, JobStatus, RunError, RunId, RunStatus, TenantId, Timestamp, WorkerName,
};

use crate::{JobOrder, OrderAnswer, Page, RunRecord, StoreResult};

/// What makes a job a command on hosts.
#[derive(Debug, Clone)]
pub struct NewFleet {
    pub inventory: i64,
    /// The hosts, in the order they are begun.
    pub hosts: Vec<i64>,
    /// What blocks call the command.
    pub command: Arc<str>,
    /// The resource it came from, which cannot be deleted meanwhile.
    pub resource: Option<i64>,
    pub lock: HostLock,
    pub rollout: Rollout,
    /// How the hosts were chosen, for people.
    pub selector: Option<String>,
    /// How long the whole may take, from the moment it begins.
    pub deadline_ms: Option<u64>,
    pub approval: Option<NewApproval>,
}

/// What must be approved, and by whom.
#[derive(Debug, Clone)]
pub struct NewApproval {
    pub hash: RequestHash,
    pub quorum: u32,
    pub four_eyes: bool,
    pub expires_ms: u64,
    /// What the command names, as it is when it is asked for. Compared again when a run is handed out.
    pub named: Named,
    /// What is asked for on each host, in the order of the hosts. Compared again when its run is handed out.
    pub digests: Vec<HostDigest>,
}

/// A command on hosts as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetRecord {
    pub inventory: InventoryName,
    pub command: String,
    pub lock: HostLock,
    pub rollout: Rollout,
    pub selector: Option<String>,
    pub deadline_ms: Option<u64>,
    pub total: u64,
    /// Hosts that were begun.
    pub planned: u64,
    pub tally: Tally,
    /// Why no more hosts are begun.
    pub stopped: Option<String>,
    pub approval: Option<ApprovalRecord>,
}

/// An approval as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRecord {
    pub state: ApprovalState,
    pub hash: RequestHash,
    pub quorum: u32,
    pub four_eyes: bool,
    pub requester: String,
    pub expires_at: Option<Timestamp>,
    /// What is asked about is a second try of hosts that were named before.
    pub retry: bool,
    /// What was found to have changed after it was approved.
    pub superseded: Option<String>,
    pub votes: Vec<VoteRecord>,
}

/// Somebody's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoteRecord {
    pub by: String,
    pub yes: bool,
    pub reason: Option<String>,
    pub at: Timestamp,
}

/// A job that waits for approval.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitingApproval {
    pub job: JobId,
    pub number: i64,
    pub command: String,
    pub hosts: u64,
    pub created_at: Timestamp,
    pub approval: ApprovalRecord,
}

/// One host of a command.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitRecord {
    pub host_id: i64,
    pub host: HostName,
    pub state: JobState,
    pub error: Option<RunError>,
    /// JSON.
    pub result: Option<String>,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    /// What kept it from running, while that is how it stands.
    pub blocked_by: Option<BlockedBy>,
    /// The latest attempt, if there was one.
    pub run: Option<UnitRun>,
}

/// The rule that kept a command from running on a host, as it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedBy {
    pub block: i64,
    pub reason: String,
    pub by: String,
    pub expires_at: Option<Timestamp>,
}

/// The latest attempt on a host.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitRun {
    pub id: RunId,
    pub status: RunStatus,
    pub worker: WorkerName,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub exit_code: Option<i32>,
}

/// A decision somebody wants to make.
#[derive(Debug, Clone)]
pub struct ApprovalOrder {
    pub tenant: TenantId,
    pub job: JobId,
    pub by: Author,
    pub yes: bool,
    pub reason: Option<String>,
    /// The hash of what they looked at, if they said so.
    pub seen: Option<RequestHash>,
    /// The hash of what would run by now.
    pub current: RequestHash,
}

/// What became of an [`ApprovalOrder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalAnswer {
    Decided(Decided, JobStatus),
    Refused(ApprovalRefused),
    /// The job needs no approval.
    NotNeeded,
    NotFound,
}

/// A rule that commands may not run somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockRecord {
    pub id: i64,
    pub inventory: InventoryName,
    pub place: BlockedPlace,
    /// `None` is every command.
    pub command: Option<String>,
    pub reason: String,
    pub by: String,
    pub at: Timestamp,
    pub expires_at: Option<Timestamp>,
}

/// Where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockedPlace {
    Host(HostName),
    /// Whoever is meant by this when a run is about to start.
    Selector(String),
}

/// A new such rule.
#[derive(Debug, Clone)]
pub struct NewBlock {
    pub tenant: TenantId,
    pub inventory: InventoryName,
    pub place: BlockedPlace,
    pub command: Option<String>,
    pub reason: String,
    pub by: Author,
    pub expires_at: Option<Timestamp>,
}

/// What became of a [`NewBlock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockAnswer {
    Made(i64),
    NoInventory,
    NoHost,
    /// The tenant has so much of this in force already: `blocks`, or bytes of `block_selectors`.
    TooMany {
        what: &'static str,
        max: i64,
    },
}

/// Blocks that one tenant may have in force at once, and bytes of all their selectors. Every run on a host is checked against
/// them before it starts.
pub const BLOCKS_MAX: i64 = 1_000;
pub const BLOCK_SELECTOR_BYTES_MAX: i64 = 256 * 1024;

/// Who is at a host, or waits for it.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnRecord {
    pub job: JobId,
    pub job_number: i64,
    pub command: String,
    pub lock: HostLock,
    /// It may run there now.
    pub held: bool,
    pub status: JobStatus,
    pub since: Timestamp,
}

/// A run that went missing, for which its host is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptRecord {
    pub run: RunId,
    /// Through whom it was executed.
    pub agent: WorkerName,
    pub lock: HostLock,
    pub since: Timestamp,
    /// When it must be over; earlier if somebody says how it ended.
    pub until: Timestamp,
    pub job: Option<JobId>,
    pub job_number: Option<i64>,
    pub command: Option<String>,
}

/// What goes on at a host.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostLine {
    pub kept: Vec<KeptRecord>,
    /// Who is there and who waits, in the order of their turns.
    pub turns: Vec<TurnRecord>,
}

/// Somebody knows that nothing runs on a host any more.
#[derive(Debug, Clone)]
pub struct ReleaseOrder {
    pub tenant: TenantId,
    pub inventory: InventoryName,
    pub host: HostName,
    pub by: Author,
    pub reason: String,
}

/// Which units to list.
#[derive(Debug, Clone, Default)]
pub struct UnitFilter {
    pub status: Option<JobStatus>,
    pub host: Option<HostName>,
}

/// What the conductor did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Conducted {
    /// Commands that moved. When any did, there may be more to do at once.
    pub moved: u64,
}

#[async_trait]
pub trait FleetStore: Send + Sync {
    /// Moves every command on by one bite: begins hosts, stops, sweeps, ends. `thorough` also looks for hosts where somebody
    /// waits and nobody is, which is dear, and needed only where a server died between two steps.
    async fn conduct(&self, thorough: bool) -> StoreResult<Conducted>;

    /// A command and how far it has come; `None` if the tenant has no such job or it is no command.
    async fn find_fleet(&self, tenant: TenantId, job: JobId) -> StoreResult<Option<FleetRecord>>;

    /// Hosts of a command that were begun, by number.
    async fn list_units(
        &self,
        tenant: TenantId,
        job: JobId,
        filter: UnitFilter,
        after: Option<i64>,
        limit: u32,
    ) -> StoreResult<Page<UnitRecord, i64>>;

    /// Hosts of a command that were not begun, in the order they would be, after this many.
    async fn list_unplanned(
        &self,
        tenant: TenantId,
        job: JobId,
        after: u64,
        limit: u32,
    ) -> StoreResult<Page<(i64, HostName), u64>>;

    /// All hosts of a command in the order they are begun, after this many; `None` for one that is in no inventory any more.
    async fn list_targets(
        &self,
        tenant: TenantId,
        job: JobId,
        after: u64,
        limit: u32,
    ) -> StoreResult<Page<(i64, Option<HostName>), u64>>;

    /// One host of a command, with all attempts, oldest first.
    async fn find_unit(
        &self,
        tenant: TenantId,
        job: JobId,
        host: HostName,
    ) -> StoreResult<Option<(UnitRecord, Vec<RunRecord>)>>;

    async fn decide(&self, order: ApprovalOrder) -> StoreResult<ApprovalAnswer>;

    /// Tries those hosts of a command again that did not succeed. If `approval` says so, somebody must say yes first: an
    /// earlier yes was for an earlier try. What was rejected, or changed before anybody decided, is not tried again.
    async fn retry_command(&self, order: JobOrder, approval: Option<NewApproval>) -> StoreResult<OrderAnswer>;

    /// Jobs that wait for approval, oldest first.
    async fn list_approvals(
        &self,
        tenant: TenantId,
        after: Option<i64>,
        limit: u32,
    ) -> StoreResult<Page<WaitingApproval, i64>>;

    /// Forbids commands somewhere. Runs that are about to start count; those that run go on.
    async fn block(&self, block: NewBlock) -> StoreResult<BlockAnswer>;

    /// Lifts a rule; `false` if there is none with this number.
    async fn unblock(&self, tenant: TenantId, id: i64, by: Author, reason: Option<String>) -> StoreResult<bool>;

    /// The rules in force, newest first.
    async fn list_blocks(&self, tenant: TenantId) -> StoreResult<Vec<BlockRecord>>;

    /// Who is at a host, who waits, and for which missing runs it is kept; `None` if there is no such host.
    async fn host_queue(
        &self,
        tenant: TenantId,
        inventory: InventoryName,
        host: HostName,
    ) -> StoreResult<Option<HostLine>>;

    /// Keeps a host no longer for runs that went missing there; says for how many it was kept, `None` if there is no such
    /// host.
    async fn release_host(&self, order: ReleaseOrder) -> StoreResult<Option<u64>>;
}
