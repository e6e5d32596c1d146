//! `POST /workers/{id}/evidence`: what an agent executed, as its journal has it.
//!
//! A ledger that was restored from an older copy lacks ends that agents saw, and whole jobs. Agents offer what they executed, the
//! newest first, whenever they come to a server; the ledger takes over what it lacks and notes what it does not know.

use bowline_model::{HostName, JobId, RunId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::RunEnd;

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvidenceRequest {
    /// At most 1,000 runs.
    #[schemars(length(max = 1000))]
    #[serde(deserialize_with = "bowline_model::shape::each_by_name")]
    pub runs: Vec<RunEvidence>,
}

/// One run that was executed, and is over.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunEvidence {
    pub run_id: RunId,
    /// The part of the command for this host.
    pub unit_id: JobId,
    /// The command; absent in journals from before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    pub fence: u32,
    pub attempt: u32,
    pub host: HostName,
    /// Under which lease of the host it was executed. Later leases are given a higher one.
    pub host_fence: u64,
    /// How it ended. `last_seq` means nothing here.
    #[serde(deserialize_with = "bowline_model::shape::by_name")]
    pub ended: RunEnd,
    /// The agent still has its records and ships them itself; nothing is taken over from here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
    /// When it ended, by the agent's clock.
    pub at: Timestamp,
}

/// What the ledger made of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct EvidenceAnswer {
    /// Runs whose end the ledger knew, or that are too old for it to tell.
    pub known: u32,
    /// Runs whose end was news.
    pub taken: u32,
    /// Runs of jobs that the ledger does not have.
    pub unknown: u32,
}
