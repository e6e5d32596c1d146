//! What the witnesses of workflows wrote down.

use std::collections::BTreeMap;

use bowline_model::workflow::WorkflowSpec;
use bowline_model::{JobId, JobStatus, TenantId, Timestamp};

use super::FlowCounts;

/// A decision somebody made about an approval, written down before it was sent.
#[derive(Debug, Clone)]
pub struct Decision {
    pub job: JobId,
    pub yes: bool,
    /// It was answered as the one that counts.
    pub taken: bool,
}

/// A run as it was seen last.
#[derive(Debug, Clone)]
pub struct Seen {
    pub tenant: TenantId,
    pub begun_by: Option<JobId>,
    pub status: JobStatus,
    pub updated_at: Timestamp,
    pub result: Option<String>,
    pub version: u64,
    /// Its records, turn by turn, as they were stored.
    pub turns: Vec<String>,
    /// How often somebody had wanted it to go on where it failed.
    pub retries: u64,
}

/// The notes.
#[derive(Debug, Default)]
pub struct FlowNotes {
    /// What runs were asked for with.
    pub asked: BTreeMap<JobId, WorkflowSpec>,
    pub seen: BTreeMap<JobId, Seen>,
    /// Wishes to go on where it failed that were sent, whatever was answered.
    pub retries: BTreeMap<JobId, u64>,
    /// How often each signal was sent.
    pub signals: BTreeMap<u64, u64>,
    /// By the name of whoever decided; nobody decides twice under one name.
    pub decisions: BTreeMap<String, Decision>,
    pub versions: BTreeMap<(TenantId, usize), u64>,
    pub counts: FlowCounts,
}
