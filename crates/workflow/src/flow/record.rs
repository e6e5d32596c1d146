//! What is remembered of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_model::question::AskRule;
use bowline_model::workflow::NodeId;
use bowline_model::{JobId, JobStatus, RunError, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::debug::{HaltedBy, Order};
use crate::node::{Call, Ended, Exit};

/// One thing that happened to a run. Names are short because there are many of them, and stable because they are stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Record {
    /// The run begins, at the node where every run begins.
    Opened { at: Timestamp },
    /// A node is over.
    Step(Step),
    /// A node waits. Written before what it waits for can happen: the intent.
    Began { node: NodeId, visit: u32, at: Timestamp, wait: Waiting },
    /// People said yes, while the names behind their question meant this: each name with a digest.
    Approved { node: NodeId, visit: u32, named: BTreeMap<String, String> },
    /// What is named behind open questions has changed: those that follow are put again.
    AskedAgain { at: Timestamp },
    /// One of several jobs of a node has ended, and perhaps another one begins.
    Heard {
        node: NodeId,
        visit: u32,
        index: u32,
        ended: Ended,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        launched: Vec<JobId>,
        /// When those begin, if there is a moment by which they must have ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Timestamp>,
    },
    /// A job could not be made, because there was no room for it. It is tried again.
    Refused {
        node: NodeId,
        visit: u32,
        index: u32,
        /// What it was to do, unless that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<Box<Call>>,
        again_at: Timestamp,
    },
    /// It is tried again.
    Called { node: NodeId, visit: u32, index: u32, job: JobId },
    /// Something happened that nobody waits for yet.
    Signal { name: Arc<str>, key: Option<String>, payload: Value },
    /// The run stops here until somebody says how it goes on.
    Halted { by: HaltedBy, node: Option<NodeId>, at: Timestamp },
    /// Somebody said how it goes on, or changed something.
    Steered {
        order: Order,
        by: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        at: Timestamp,
        /// What the variables were that it sets, as far as there were such. Older records do not say.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        before: Map<String, Value>,
    },
    /// The clock was put back. Waits that began after this time began, and end, so much earlier.
    ClockMoved {
        after: Timestamp,
        by_us: i64,
        /// Until when sleeps last that began after it: node, visit and moment.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sleeps: Vec<(NodeId, u32, Timestamp)>,
    },
    /// Somebody wants it to stop.
    Canceling { at: Timestamp },
    /// It fails, and undoes what it did before.
    Undoing { error: RunError, at: Timestamp },
    /// It goes on where it failed.
    Retried { at: Timestamp },
    /// It is over.
    Closed {
        status: JobStatus,
        #[serde(default, skip_serializing_if = "Value::is_null")]
        result: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<RunError>,
        at: Timestamp,
    },
}

impl Record {
    /// The step, if it is one.
    pub const fn as_step(&self) -> Option<&Step> {
        if let Self::Step(step) = self { Some(step) } else { None }
    }
}

/// A node that is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its number in the run, from 1.
    pub n: u32,
    pub node: NodeId,
    pub visit: u32,
    pub status: StepStatus,
    pub exit: Exit,
    pub began_at: Timestamp,
    pub ended_at: Timestamp,
    pub output: Value,
    /// Variables it set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<(Arc<str>, Value)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    #[serde(default, skip_serializing_if = "Origin::is_own")]
    pub origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    Success,
    Failed,
}

/// Where the result of a step comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The node was carried out.
    #[default]
    Own,
    /// Somebody said what its output is.
    Pinned,
}

impl Origin {
    fn is_own(&self) -> bool {
        *self == Self::Own
    }
}

/// What a node waits for, as it is remembered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Waiting {
    Until(Timestamp),
    Approval {
        title: String,
        expires_at: Option<Timestamp>,
        #[serde(default)]
        rule: AskRule,
    },
    Event {
        name: Arc<str>,
        key: Option<String>,
        expires_at: Option<Timestamp>,
    },
    /// A job. What it is to do is remembered by the job itself.
    Call {
        job: JobId,
        /// When nobody waits for it any more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
    },
    Each {
        calls: Vec<Call>,
        concurrency: u32,
        stop_on_failure: bool,
        /// Those that began at once.
        launched: Vec<JobId>,
    },
}

impl Waiting {
    /// When it is over even if nothing comes. Jobs have times of their own.
    pub const fn due_at(&self) -> Option<Timestamp> {
        match self {
            Self::Until(at) => Some(*at),
            Self::Approval { expires_at, .. } | Self::Event { expires_at, .. } => *expires_at,
            Self::Call { .. } | Self::Each { .. } => None,
        }
    }
}

/// Records as they are stored.
pub fn write_records(records: &[Record]) -> String {
    serde_json::to_string(records).expect("records have text keys and finite numbers, so they can be written as JSON")
}

/// What [`write_records`] wrote.
pub fn read_records(text: &str) -> Result<Vec<Record>, serde_json::Error> {
    serde_json::from_str(text)
}
