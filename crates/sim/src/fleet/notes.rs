//! What the witnesses of commands on hosts wrote down. Nothing here is asked of the ledger.

use std::collections::BTreeMap;

use bowline_model::fleet::Rollout;
use bowline_model::{HostName, JobId, RunId, RunStatus, TenantId, Timestamp};

use super::FleetCounts;

/// A command that was asked for and acknowledged.
#[derive(Debug, Clone)]
pub struct AskedCommand {
    pub tenant: TenantId,
    pub ask: u64,
    pub kind: usize,
    pub rollout: Rollout,
}

/// A process that was really started.
#[derive(Debug, Clone)]
pub struct Start {
    pub run: RunId,
    pub command: JobId,
    pub host: HostName,
    pub argv: Vec<String>,
    pub claimed_at: Timestamp,
    pub at: Timestamp,
}

/// A decision somebody made, written down before it was sent.
#[derive(Debug, Clone)]
pub struct Vote {
    pub job: JobId,
    pub by: String,
    pub yes: bool,
    /// What they looked at: the mark of the command.
    pub saw: String,
    /// A newer version of the command was active already, and the one who activated it had been told so.
    pub overtaken: bool,
    pub sent_at: Timestamp,
}

/// A rule that was acknowledged.
#[derive(Debug, Clone)]
pub struct Block {
    pub id: i64,
    pub tenant: TenantId,
    /// `None` is every host.
    pub host: Option<HostName>,
    /// `None` is every command.
    pub kind: Option<usize>,
    pub set_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// When somebody began to lift it.
    pub lifted_at: Option<Timestamp>,
}

/// The notes.
#[derive(Debug, Default)]
pub struct FleetNotes {
    pub commands: BTreeMap<JobId, AskedCommand>,
    /// The newest mark of each type of command whose activation was acknowledged.
    pub marks: BTreeMap<(TenantId, usize), u64>,
    pub starts: Vec<Start>,
    pub votes: Vec<Vote>,
    pub blocks: Vec<Block>,
    /// Every end that stood in the log of a run. There are two when a disk forgot the first.
    pub ends: BTreeMap<RunId, Vec<RunStatus>>,
    /// What was told about runs that were not begun.
    pub not_begun: BTreeMap<RunId, RunStatus>,
    /// The number of the last record of each run whose directory was freed.
    pub freed_at: BTreeMap<RunId, u64>,
    pub counts: FleetCounts,
}
