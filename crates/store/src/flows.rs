//! Runs of workflows: what is remembered of them, what came in for them, and who waits for whom.
//!
//! The ledger does not know what a node is. It keeps records, in turns, and sees to it that each turn is added once, by
//! whoever was first: a turn names the version of the run that it goes on from.

use std::sync::Arc;

use async_trait::async_trait;
use bowline_model::audit::{Action, Author};
use bowline_model::fleet::ApprovalRefused;
use bowline_model::idempotency::RequestHash;
use bowline_model::question::AskRule;
use bowline_model::{JobId, JobStatus, RunError, TenantId, Timestamp};
use serde_json::Value;

use crate::{NewJob, OnceKey, Page, StoreResult};

/// What makes a job a run of a workflow.
#[derive(Debug, Clone)]
pub struct NewFlow {
    pub definition: KeptDefinition,
    /// What people call the workflow, and which version of it.
    pub workflow: Arc<str>,
    pub workflow_version: Option<u32>,
    /// The run that this one goes on from, and after which step of it.
    pub forked_from: Option<(JobId, u32)>,
    /// How many runs it is nested in.
    pub depth: u32,
    /// What it has done when it is accepted. A run that begins later has done nothing.
    pub first: Option<NewTurn>,
}

/// What a run is pinned to. It was kept before the run, and retention may have removed it since, because nothing needed it;
/// then it is kept once more, together with the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptDefinition {
    /// As [`FlowStore::keep_definition`] named it.
    pub id: i64,
    pub hash: [u8; 32],
    pub body: Arc<str>,
}

/// What a run has done, to be stored together.
#[derive(Debug, Clone)]
pub struct NewTurn {
    /// The records, as JSON.
    pub records: Arc<str>,
    /// Steps that are over before and after it.
    pub steps: (u32, u32),
    /// The whole run after it, as JSON.
    pub snapshot: Option<Arc<str>>,
    pub standing: FlowStanding,
    /// The run was over before it, and has only heard something. That says nothing about its job: somebody may have wanted it
    /// to go on meanwhile.
    pub after_end: bool,
    /// The run cannot go on, and nobody may be able to say what it began: whatever lives of that is ended.
    pub gives_up: bool,
    /// Waits for people and events that it begins.
    pub opened: Vec<NewWait>,
    /// And those that are over: node and visit.
    pub closed: Vec<(Arc<str>, u32)>,
    /// Jobs that it begins.
    pub children: Vec<NewJob>,
    /// Jobs that it no longer wants.
    pub cancels: Vec<JobId>,
    /// There is more to do at once.
    pub again: bool,
    /// What nodes logged: node and message.
    pub logs: Vec<(Arc<str>, String)>,
    /// What people said: who, and what.
    pub steered: Vec<(String, String)>,
    /// Signals that the execution remembers after it.
    pub remembered: Remembered,
}

/// Signals that an execution remembers until a node waits for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Remembered {
    pub signals: u64,
    pub bytes: u64,
}

/// What an execution may be sent before it has taken it in: messages that wait for it, and signals that it remembers. One
/// message is always taken, however large.
pub const REMEMBERED_MAX: Remembered = Remembered { signals: 1_000, bytes: 8 << 20 };

impl NewTurn {
    /// Bytes that it adds to what is stored of its execution.
    pub fn bytes(&self) -> u64 {
        (self.records.len() + self.snapshot.as_ref().map_or(0, |body| body.len())) as u64
    }

    /// A turn after which the run stands so, and that brings about nothing else.
    pub fn standing(records: Arc<str>, steps: (u32, u32), standing: FlowStanding) -> Self {
        Self {
            records,
            steps,
            snapshot: None,
            standing,
            after_end: false,
            gives_up: false,
            opened: Vec::new(),
            closed: Vec::new(),
            children: Vec::new(),
            cancels: Vec::new(),
            again: false,
            logs: Vec::new(),
            steered: Vec::new(),
            remembered: Remembered::default(),
        }
    }
}

/// How a run stands.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowStanding {
    pub status: JobStatus,
    pub paused_for: Option<Arc<str>>,
    /// When something happens by itself.
    pub due_at: Option<Timestamp>,
    /// Where it is, for people.
    pub node: Option<Arc<str>>,
    pub result: Option<Arc<str>>,
    pub error: Option<RunError>,
}

impl FlowStanding {
    /// Nothing but the status.
    pub const fn of(status: JobStatus) -> Self {
        Self { status, paused_for: None, due_at: None, node: None, result: None, error: None }
    }
}

/// What sort of wait somebody else can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitKind {
    Approval,
    Event,
}

impl WaitKind {
    /// The number the ledger keeps. Never reuse one.
    pub const fn code(self) -> i64 {
        match self {
            Self::Approval => 1,
            Self::Event => 2,
        }
    }

    /// As events say it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Event => "event",
        }
    }

    pub const fn from_code(code: i64) -> Option<Self> {
        match code {
            1 => Some(Self::Approval),
            2 => Some(Self::Event),
            _ => None,
        }
    }
}

/// A wait that somebody else can end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWait {
    pub kind: WaitKind,
    pub node: Arc<str>,
    pub visit: u32,
    /// The event's name, or the title of what is to be approved.
    pub name: Arc<str>,
    pub key: Option<String>,
    pub expires_at: Option<Timestamp>,
    /// Of an approval: what is asked, and who must agree.
    pub question: Option<NewQuestion>,
}

/// A question that waits for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewQuestion {
    /// Of what is asked and of what those who go on from the answer can use.
    pub hash: RequestHash,
    pub rule: AskRule,
}

/// A turn for a run that is there.
#[derive(Debug, Clone)]
pub struct TurnOrder {
    /// The number of the run's job.
    pub flow: i64,
    /// The version it goes on from.
    pub version: u64,
    /// Messages it has heard.
    pub heard: Vec<i64>,
    pub turn: NewTurn,
}

/// What became of a [`TurnOrder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnAnswer {
    Stored,
    /// Somebody else was first. Nothing was stored.
    Stale,
}

/// Something that came in for a run.
#[derive(Debug, Clone, PartialEq)]
pub struct InboxItem {
    pub id: i64,
    pub flow: i64,
    /// Whose execution it is.
    pub tenant: TenantId,
    pub message: InboxMessage,
}

/// Which part of what came in is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InboxPart {
    /// What came after this message, but for what came for executions of these tenants.
    After { id: i64, except: Vec<TenantId> },
    /// What came for this execution.
    Of(i64),
}

impl InboxPart {
    /// Everything, from the oldest message on.
    pub const fn all() -> Self {
        Self::After { id: 0, except: Vec::new() }
    }
}

/// What came in, as far as it was read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Inbox {
    pub items: Vec<InboxItem>,
    /// After which message there may be more.
    pub next: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum InboxMessage {
    /// As JSON.
    Told(String),
    /// One of its jobs has ended.
    Ended {
        job: JobId,
        status: JobStatus,
        result: Option<String>,
        /// The length of a result that is in the object store and not in `result`.
        result_bytes: Option<u64>,
        error: Option<RunError>,
    },
}

/// A run, as far as it must be known to go on.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredFlow {
    pub number: i64,
    pub job: JobId,
    pub tenant: TenantId,
    pub definition: i64,
    pub workflow: Arc<str>,
    pub workflow_version: Option<u32>,
    pub version: u64,
    pub depth: u32,
    /// What it was asked for with, as JSON.
    pub payload: String,
    pub actor: Arc<str>,
    pub trace_id: Option<Arc<str>>,
    pub correlation_id: Option<Arc<str>>,
    /// The latest snapshot that was asked for, and the records since, turn by turn.
    pub snapshot: Option<String>,
    pub records: Vec<String>,
    /// How much has been recorded since the snapshot, in bytes.
    pub since_snapshot: usize,
}

/// A run, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowRecord {
    pub workflow: String,
    pub workflow_version: Option<u32>,
    pub steps: u32,
    pub node: Option<String>,
    pub paused_for: Option<String>,
    pub forked_from: Option<(JobId, u32)>,
    /// The run that began this one.
    pub parent: Option<JobId>,
    /// How many approvals were given in it.
    pub decisions: u32,
    pub waits: Vec<WaitRecord>,
}

/// A wait that somebody else can end, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitRecord {
    pub job: JobId,
    /// Who started the execution.
    pub actor: String,
    pub workflow: String,
    pub wait: NewWait,
    pub since: Timestamp,
    /// How many people have said yes.
    pub given: u32,
}

/// Where a wait stands among all of its kind: by its age first. No two stand at the same place, and none ever moves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitPlace {
    pub since: Timestamp,
    /// The number of the run's job.
    pub flow: i64,
    pub node: Arc<str>,
    pub visit: u32,
}

/// What somebody says to a run.
#[derive(Debug, Clone)]
pub struct FlowOrder {
    pub tenant: TenantId,
    pub job: JobId,
    /// As JSON, for whoever carries out the run.
    pub message: Arc<str>,
    /// The wait that this ends. A second one who wants to end it is refused.
    pub ends: Option<(Arc<str>, u32)>,
    /// For a wait that is a question: what somebody says to it. It ends when enough people have said yes, or one no.
    pub vote: Option<FlowVote>,
    /// It changes what follows: the open questions are withdrawn, and put again when the execution has heard it.
    pub change: Option<FlowChange>,
    /// What it is called in the audit trail.
    pub action: Action,
    /// What is told there: names, and no contents.
    pub about: Value,
    pub by: Author,
    pub reason: Option<String>,
    /// Carried out once for this key.
    pub once: Option<OnceKey>,
}

/// A change of what an execution knows or does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowChange {
    /// How many approvals had been given when the change was asked for. One more by now, and the change comes too late.
    pub decisions: u32,
}

/// A decision somebody wants to make about a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowVote {
    pub yes: bool,
    /// The hash of what they looked at, if they said so.
    pub seen: Option<RequestHash>,
    /// The hash of the question that was open when they decided. A yes counts for no other one.
    pub current: RequestHash,
}

/// What became of a [`FlowOrder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowAnswer {
    Taken,
    /// The same was taken under this key before; nothing is done again.
    Replayed,
    /// One yes of several; so many are still needed.
    Noted {
        missing: u32,
    },
    /// The decision does not count.
    Refused(ApprovalRefused),
    /// What the run knows was changed, and the question is about to be put again.
    Withdrawn,
    /// A decision was taken that the caller did not know of, or that the execution has not heard yet; nothing is changed.
    DecisionAhead,
    /// Others have approved it as it is, so it is not changed any more.
    Approved,
    /// It is over.
    Finished(JobStatus),
    /// Nobody waits for this, or no more.
    NobodyWaits,
    /// There is no such run.
    NotFound,
    /// Something else was asked for under this key before.
    KeyConflict,
    /// So much waits for the execution already; it takes no more before it has taken that in.
    Full(Remembered),
}

/// What became of a [`NewSignal`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signaled {
    /// So many runs were told.
    Told(u64),
    /// So many runs were told when it was asked for before.
    Replayed(u64),
    /// Something else was asked for under this key before.
    KeyConflict,
    /// So many signals by name wait to be taken in by executions of the tenant; there is no room for another.
    Full(Remembered),
}

/// Something that happened elsewhere, for whoever waits for it.
#[derive(Debug, Clone)]
pub struct NewSignal {
    pub tenant: TenantId,
    pub name: Arc<str>,
    pub key: Option<String>,
    /// As JSON, for whoever carries out the run.
    pub message: Arc<str>,
    pub by: Author,
    /// Told once for this key.
    pub once: Option<OnceKey>,
}

/// Signals by name of one tenant that wait to be taken in.
pub const PENDING_SIGNALS_MAX: Remembered = Remembered { signals: 1_000, bytes: 32 << 20 };

/// Bytes of messages that are read at a time.
pub const INBOX_BYTES: u64 = 8 << 20;
/// Bytes of records that are read at a time.
pub const RECORDS_BYTES: u64 = 4 << 20;

#[async_trait]
pub trait FlowStore: Send + Sync {
    /// Keeps a definition for as long as runs of it may need it, and says what it is called. The same definition is kept
    /// once. What one was called is never the name of another, even after it is gone.
    async fn keep_definition(&self, tenant: TenantId, hash: [u8; 32], body: Arc<str>) -> StoreResult<i64>;

    async fn find_definition(&self, id: i64) -> StoreResult<Option<String>>;

    /// What came in and was not heard yet, oldest first: so many messages at most, and not much more than [`INBOX_BYTES`]. Of many
    /// messages only some are looked at.
    async fn flow_inbox(&self, limit: u32, part: InboxPart) -> StoreResult<Inbox>;

    /// How many bytes [`Self::load_flows`] would read of each execution, by its number.
    async fn flow_sizes(&self, flows: Vec<i64>, until_step: Option<u32>) -> StoreResult<Vec<(i64, u64)>>;

    /// Runs as they were after so many steps; after all of them for `None`.
    async fn load_flows(&self, flows: Vec<i64>, until_step: Option<u32>) -> StoreResult<Vec<StoredFlow>>;

    /// Adds each turn, unless somebody else was first.
    async fn turn_flows(&self, turns: Vec<TurnOrder>) -> StoreResult<Vec<TurnAnswer>>;

    /// Says something to a run.
    async fn steer_flow(&self, order: FlowOrder) -> StoreResult<FlowAnswer>;

    /// Tells everybody who waits for it, and says how many do.
    ///
    /// A signal is stored once. Where many wait for it, most of them get it by and by, each once ([`Self::spread_signals`]);
    /// those that have stopped waiting by then do not.
    async fn signal_flows(&self, signal: NewSignal) -> StoreResult<Signaled>;

    /// How many executions wait for an event now.
    async fn count_waiting(&self, tenant: TenantId, name: Arc<str>, key: Option<String>) -> StoreResult<u64>;

    /// Continues signals that are not spread over all who wait for them, and says whether there was anything to do.
    async fn spread_signals(&self) -> StoreResult<bool>;

    async fn find_flow(&self, tenant: TenantId, job: JobId) -> StoreResult<Option<FlowRecord>>;

    /// The number of a run's job.
    async fn flow_number(&self, tenant: TenantId, job: JobId) -> StoreResult<Option<i64>>;

    /// Records of a run, turn by turn: from the turn that has this step on, and after this turn. What it gives to go on with is
    /// the last of these turns. A page has [`RECORDS_BYTES`] at most, or one turn.
    async fn flow_records(
        &self,
        tenant: TenantId,
        job: JobId,
        from_step: u32,
        after: u64,
        limit: u32,
    ) -> StoreResult<Page<String, u64>>;

    /// Waits of a tenant that somebody can end, oldest first, after this one. Those that stay where they are while somebody
    /// walks through the pages are seen once each, whatever begins or ends meanwhile.
    async fn list_waits(
        &self,
        tenant: TenantId,
        kind: WaitKind,
        after: Option<WaitPlace>,
        limit: u32,
    ) -> StoreResult<Page<WaitRecord, WaitPlace>>;
}
