//! What agents executed, told to a ledger that may have lost it.

use async_trait::async_trait;
use bowline_model::{HostName, JobId, RunId, TenantId, Timestamp, WorkerName};

use crate::{Page, RunReport, StoreResult};

/// A run that an agent executed, from its journal.
#[derive(Debug, Clone)]
pub struct RunEvidence {
    /// How it ended. `last_seq` does not count.
    pub report: RunReport,
    pub attempt: u32,
    /// The part of the command for this host.
    pub unit: JobId,
    pub job: Option<JobId>,
    pub host: HostName,
    pub host_fence: u64,
    /// The agent ships it itself; only whether it is known counts here.
    pub kept: bool,
    /// When it ended, by the agent's clock.
    pub at: Timestamp,
}

/// What an agent offers.
#[derive(Debug, Clone)]
pub struct Evidence {
    pub tenant: TenantId,
    pub agent: WorkerName,
    pub runs: Vec<RunEvidence>,
    /// Jobs of runs that ended before this may have been removed by retention; nothing is said about those.
    pub since: Timestamp,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EvidenceTaken {
    pub known: u32,
    /// Runs whose end was news.
    pub taken: u32,
    /// Runs of jobs that the ledger does not have; `new` of them were not noted before.
    pub unknown: u32,
    pub new: u32,
}

/// A run that an agent executed, of a job that the ledger does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownRun {
    pub run: RunId,
    pub unit: JobId,
    pub job: Option<JobId>,
    pub attempt: u32,
    /// Whose journal has it.
    pub agent: WorkerName,
    pub host: HostName,
    pub succeeded: bool,
    pub exit_code: Option<i32>,
    /// When it ended, by the agent's clock.
    pub ended_at: Timestamp,
    pub reported_at: Timestamp,
}

#[async_trait]
pub trait EvidenceStore: Send + Sync {
    /// Takes over ends that the ledger lacks, and notes runs of jobs that it does not have: 10,000 of a tenant, of each agent the
    /// newest. Leases that come after this are higher than those that are told, of hosts that the agent reaches.
    async fn take_evidence(&self, evidence: Evidence) -> StoreResult<EvidenceTaken>;
    /// Runs of jobs that the ledger does not have, the newest first.
    async fn list_unknown_runs(
        &self,
        tenant: TenantId,
        before: Option<RunId>,
        limit: u32,
    ) -> StoreResult<Page<UnknownRun, RunId>>;
}
