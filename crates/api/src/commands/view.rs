//! How a command on hosts is shown.

use std::collections::BTreeMap;

use bowline_model::fleet::{HostLock, Rollout};
use bowline_model::{HostName, InventoryName, RunError, RunId, Timestamp, WorkerName};
use bowline_store::{ApprovalRecord, BlockedBy, FleetRecord, UnitRecord, VoteRecord};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::actors::ActorView;
use crate::views::{job_word, raw};

/// What `GET /jobs/{id}` says of a command beside the job.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CommandView {
    /// The command type, or `ad-hoc`.
    pub command: String,
    pub inventory: InventoryName,
    pub selector: Option<String>,
    pub lock: HostLock,
    pub rollout: Rollout,
    pub deadline_ms: Option<u64>,
    pub hosts: HostCounts,
    /// Why no more hosts are begun.
    pub stopped: Option<String>,
    pub approval: Option<ApprovalView>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct HostCounts {
    pub total: u64,
    /// Hosts that were begun.
    pub begun: u64,
    /// How many stand where; `new` are those that were not begun.
    pub by_status: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ApprovalView {
    /// required, approved, rejected, expired, superseded, withdrawn.
    pub state: &'static str,
    /// Of exactly what will run. Send it back with the decision, so that nobody approves what they have not seen.
    pub hash: String,
    pub quorum: u32,
    pub four_eyes: bool,
    pub requested_by: String,
    /// The same, with the name.
    pub requester: ActorView,
    pub expires_at: Option<Timestamp>,
    /// What is asked about is a second try: a yes to the first one was for that one.
    pub retry: bool,
    /// What was found to have changed after it was approved. Nothing more of it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded: Option<String>,
    pub votes: Vec<VoteView>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct VoteView {
    pub by: String,
    /// The same, with the name.
    pub actor: ActorView,
    pub approved: bool,
    pub reason: Option<String>,
    pub at: Timestamp,
}

impl From<VoteRecord> for VoteView {
    fn from(vote: VoteRecord) -> Self {
        let actor = ActorView::unnamed(&vote.by);
        Self { by: vote.by, actor, approved: vote.yes, reason: vote.reason, at: vote.at }
    }
}

/// A hash as people copy it.
pub fn hex(bytes: &[u8; 32]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reads it back.
pub fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (n, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * n..2 * n + 2], 16).ok()?;
    }
    Some(bytes)
}

impl From<ApprovalRecord> for ApprovalView {
    fn from(approval: ApprovalRecord) -> Self {
        Self {
            state: approval.state.as_str(),
            hash: hex(approval.hash.as_bytes()),
            quorum: approval.quorum,
            four_eyes: approval.four_eyes,
            requester: ActorView::unnamed(&approval.requester),
            requested_by: approval.requester,
            expires_at: approval.expires_at,
            retry: approval.retry,
            superseded: approval.superseded,
            votes: approval.votes.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<FleetRecord> for CommandView {
    fn from(fleet: FleetRecord) -> Self {
        let mut by_status: BTreeMap<&'static str, u64> =
            fleet.tally.counts().map(|(status, units)| (job_word(status), units)).collect();
        let new = fleet.total.saturating_sub(fleet.planned);
        if new > 0 {
            by_status.insert("new", new);
        }
        Self {
            command: fleet.command,
            inventory: fleet.inventory,
            selector: fleet.selector,
            lock: fleet.lock,
            rollout: fleet.rollout,
            deadline_ms: fleet.deadline_ms,
            hosts: HostCounts { total: fleet.total, begun: fleet.planned, by_status },
            stopped: fleet.stopped,
            approval: fleet.approval.map(Into::into),
        }
    }
}

/// One host of a command.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UnitView {
    pub host: HostName,
    pub host_id: i64,
    /// new, pending, queued, running, canceling, success, failed, canceled, blocked, error.
    pub status: &'static str,
    pub attempts: u32,
    pub exit_code: Option<i32>,
    pub error: Option<RunError>,
    pub result: Option<Box<RawValue>>,
    pub run_id: Option<RunId>,
    pub worker_id: Option<WorkerName>,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// When it is tried again, while it waits for that.
    pub retry_at: Option<Timestamp>,
    /// It waits for its host, where somebody else is.
    pub waits_for_host: bool,
    /// What kept it from running, where something did.
    pub blocked: Option<BlockedView>,
}

/// The rule that kept a command from running on a host.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BlockedView {
    pub block_id: i64,
    pub reason: String,
    pub by: String,
    /// The same, with the name.
    pub actor: ActorView,
    /// Until somebody lifts it, unless given.
    pub expires_at: Option<Timestamp>,
}

impl From<BlockedBy> for BlockedView {
    fn from(rule: BlockedBy) -> Self {
        let actor = ActorView::unnamed(&rule.by);
        Self { block_id: rule.block, reason: rule.reason, by: rule.by, actor, expires_at: rule.expires_at }
    }
}

impl UnitView {
    /// A host that was not begun.
    pub fn new(host_id: i64, host: HostName, over: bool) -> Self {
        Self {
            host,
            host_id,
            // What was not begun when the job ended never will be.
            status: if over { "canceled" } else { "new" },
            attempts: 0,
            exit_code: None,
            error: None,
            result: None,
            run_id: None,
            worker_id: None,
            started_at: None,
            finished_at: None,
            retry_at: None,
            waits_for_host: false,
            blocked: None,
        }
    }
}

impl From<UnitRecord> for UnitView {
    fn from(unit: UnitRecord) -> Self {
        let waits_for_host = unit.state.place() == bowline_model::job::Place::Host;
        let run = unit.run;
        Self {
            host: unit.host,
            host_id: unit.host_id,
            status: job_word(unit.state.status),
            attempts: unit.state.attempts,
            exit_code: run.as_ref().and_then(|run| run.exit_code),
            error: unit.error,
            result: raw(unit.result),
            run_id: run.as_ref().map(|run| run.id),
            started_at: run.as_ref().and_then(|run| run.started_at),
            worker_id: run.map(|run| run.worker),
            finished_at: unit.finished_at,
            retry_at: unit.state.due_at,
            waits_for_host,
            blocked: unit.blocked_by.map(Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_copied_and_read_back() {
        let bytes: [u8; 32] = std::array::from_fn(|n| (n * 9) as u8);
        assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        for text in ["", "0", &"g".repeat(64), &"é".repeat(32), &hex(&bytes)[1..]] {
            assert_eq!(unhex(text), None, "{text}");
        }
    }
}
