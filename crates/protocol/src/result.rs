//! `POST /tasks/result`: how a run ended.

use bowline_model::{JobId, RunError, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResultStatus {
    Success,
    Failure,
    Canceled,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResultRequest {
    pub task_id: RunId,
    /// Checked when given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// Checked when given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u32>,
    pub status: ResultStatus,
    /// What came out of it. With `failure` it may be `{"error": "…"}` in place of `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<serde_json::value::RawValue>>,
    /// What went wrong. Without it a failure counts as transient.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "bowline_model::shape::maybe_by_name"
    )]
    pub error: Option<RunError>,
    /// The number of the last event the worker sent about this run; 0 for none.
    #[serde(default)]
    pub last_seq: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResultAnswer {
    /// Where the job stands now; absent when this was a repetition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_status: Option<String>,
    /// The same result was recorded before.
    pub duplicate: bool,
    /// The lease was gone, but nobody else had begun, so the job took this result.
    pub late: bool,
}
