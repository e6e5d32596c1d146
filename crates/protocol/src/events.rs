//! `POST /runs/{id}/events`: what happened in a run, numbered by the worker.

use bowline_model::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u32>,
    #[schemars(length(max = 1000))]
    #[serde(deserialize_with = "bowline_model::shape::each_by_name")]
    pub events: Vec<WorkerEvent>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerEvent {
    /// From 1, without gaps in the end. Sending one again is harmless; sending another under the same number is refused.
    #[schemars(range(min = 1))]
    pub seq: u64,
    /// When it happened, by the worker's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    pub data: Box<serde_json::value::RawValue>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EventsAck {
    /// The ledger holds 1..=this without a gap. What is acknowledged may be forgotten, nothing else.
    pub acknowledged: u64,
    /// How many of this batch were new.
    pub added: u64,
}
