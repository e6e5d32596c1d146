//! What comes in for a run. Each message is stored before it is heard, and gone in the transaction in which it was.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_model::workflow::NodeId;
use bowline_model::{JobId, RunError, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::debug::Order;
use crate::node::{Call, Ended};

/// What comes in for a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Message {
    /// There is more to do than one turn takes, or nothing has been done yet.
    GoOn,
    /// A time has come, by the clock of whoever says so.
    Due {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Timestamp>,
    },
    /// A job that the run had wished for has ended.
    Ended(Ended),
    /// There is no room for a job that the run had wished for. Whoever should have made it says so at once; it is not stored.
    Refused { job: JobId, call: Box<Call>, error: RunError },
    /// A person has decided. `named` is what the names behind the question meant to those who said yes.
    Decided {
        node: NodeId,
        visit: u32,
        approved: bool,
        by: String,
        reason: Option<String>,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        named: BTreeMap<String, String>,
    },
    /// What follows from an answer is not what it was when the questions were put: they are put again.
    AskAgain,
    /// Something happened elsewhere.
    Event { name: Arc<str>, key: Option<String>, payload: Value },
    /// Somebody wants it to stop.
    Cancel,
    /// The clock was put back by so much, and this is the time now: what was reckoned from later ones moves with it.
    ClockMoved { after: Timestamp, by_us: i64 },
    /// Somebody wants it to go on where it failed.
    Retry,
    /// Somebody steers it.
    Steer { order: Order, by: String, reason: Option<String> },
}
