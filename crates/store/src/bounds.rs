//! What keeps one tenant from harming the others: how much each uses, and which evaluations are set aside.

use async_trait::async_trait;
use bowline_model::audit::Author;
use bowline_model::{TenantId, Timestamp};

use crate::StoreResult;

/// What a tenant has in the ledger and in the object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Jobs that wait for a worker or for a moment, and executions that have begun and not ended.
    pub queued_jobs: u64,
    /// Payloads and results of jobs, and output of runs.
    pub stored_bytes: u64,
}

/// An evaluation that ended the server twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAsideRecord {
    pub tenant: TenantId,
    /// What is not evaluated any more: `schema/…`, `schedule/NAME@VERSION`, `execution/NUMBER`.
    pub subject: String,
    pub at: Timestamp,
}

#[async_trait]
pub trait BoundsStore: Send + Sync {
    /// How many jobs of each tenant wait, and how many executions have begun and not ended. Tenants that have none may be missing.
    async fn queued_by_tenant(&self) -> StoreResult<Vec<(TenantId, u64)>>;
    /// How much each tenant has stored. Reads every job, so it is not for every minute.
    async fn stored_by_tenant(&self) -> StoreResult<Vec<(TenantId, u64)>>;

    /// Sets evaluations aside, with an event for each that was not before.
    async fn set_aside(&self, subjects: Vec<(TenantId, String)>) -> StoreResult<()>;
    /// Lets an evaluation go on. False if it was not set aside.
    async fn resume_evaluation(&self, tenant: TenantId, subject: String, by: Author) -> StoreResult<bool>;
    /// What is set aside, of one tenant or of all, by subject.
    async fn list_set_aside(&self, tenant: Option<TenantId>) -> StoreResult<Vec<SetAsideRecord>>;
}
