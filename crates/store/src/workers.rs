//! Remote workers: who they say they are and when they were last heard.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bowline_model::audit::Author;
use bowline_model::{Labels, TaskType, TenantId, Timestamp, WorkerName};

use crate::StoreResult;

/// A worker as it registered.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerRecord {
    pub tenant: TenantId,
    pub name: WorkerName,
    pub worker_type: String,
    pub task_types: Vec<TaskType>,
    /// Labels that decide what it is handed.
    pub labels: Labels,
    /// Labels that an agent says about itself. They are shown and decide nothing.
    pub claimed_labels: Labels,
    /// Commands of this agent may run as its own user, with its key and credential in reach.
    pub shares_agent_user: bool,
    /// The version of its program, as it says; empty if it does not.
    pub version: String,
    pub slots: u32,
    pub registered_at: Timestamp,
    pub seen_at: Timestamp,
    pub draining: bool,
    /// Whether it has ever named a run in a heartbeat. Set by the ledger.
    pub names_runs: bool,
}

#[async_trait]
pub trait WorkerStore: Send + Sync {
    /// Stores a worker, or what changed about it. Its times are set by the ledger. An agent that was removed meanwhile is not
    /// stored.
    async fn register_worker(&self, worker: WorkerRecord) -> StoreResult<()>;
    async fn find_worker(&self, tenant: TenantId, name: WorkerName) -> StoreResult<Option<WorkerRecord>>;
    async fn list_workers(&self, tenant: TenantId) -> StoreResult<Vec<WorkerRecord>>;
    /// Every worker that was asked to take no more work, of all tenants.
    async fn list_draining(&self) -> StoreResult<Vec<(TenantId, WorkerName)>>;
    /// How many runs each worker of a tenant has now. Workers with none are not named.
    async fn running_by_worker(&self, tenant: TenantId) -> StoreResult<BTreeMap<String, u32>>;
    /// Asks a worker to take no more work (or to go on); `false` if there is no such worker.
    async fn drain_worker(&self, tenant: TenantId, name: WorkerName, draining: bool, by: Author) -> StoreResult<bool>;
}
