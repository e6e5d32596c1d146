//! `POST /workers/{id}/events`: what happened in many runs at once, and how some of them ended.
//!
//! Agents keep what happened until the ledger holds it: everything up to the acknowledged number may be forgotten, and a run
//! whose end was heard may be forgotten whole. Sending anything again is harmless.

use bowline_model::{RunError, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ResultStatus, WorkerEvent};

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShipRequest {
    /// At most 1,000 runs, with at most 10,000 events in all.
    #[schemars(length(max = 1000))]
    #[serde(deserialize_with = "bowline_model::shape::each_by_name")]
    pub runs: Vec<RunNews>,
}

/// News of one run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunNews {
    pub run_id: RunId,
    pub fence: u32,
    #[serde(default, deserialize_with = "bowline_model::shape::each_by_name")]
    pub events: Vec<WorkerEvent>,
    /// How it ended, once it has.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "bowline_model::shape::maybe_by_name"
    )]
    pub ended: Option<RunEnd>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunEnd {
    pub status: ResultStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// What came out of it, for people and for other jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<serde_json::value::RawValue>>,
    /// What went wrong. Without it a failure counts as permanent: a command that failed fails again.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "bowline_model::shape::maybe_by_name"
    )]
    pub error: Option<RunError>,
    /// The number of the last event of this run.
    pub last_seq: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ShipAnswer {
    /// In the order of the request.
    pub runs: Vec<RunHeard>,
}

/// What the ledger holds of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunHeard {
    pub run_id: RunId,
    /// The ledger holds 1..=this without a gap.
    pub acknowledged: u64,
    /// The ledger knows how it ended, now or before.
    pub ended: bool,
    /// Why nothing of it was taken: `RUN_NOT_FOUND`, `NOT_YOURS`, `STALE_LEASE`, `SEQ_CONFLICT`. None of these goes away
    /// by sending it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}
