//! `POST /workers/{id}/heartbeat`: I am alive, and these are mine.

use bowline_model::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An empty body is a heartbeat too.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HeartbeatRequest {
    /// The tasks being worked on. Naming a task accepts it and renews its lease.
    pub runs: Vec<RunId>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct HeartbeatAnswer {
    /// Go on with these.
    pub renewed: Vec<RunId>,
    /// Stop these and report them as `canceled`: somebody asked for it.
    pub cancel: Vec<RunId>,
    /// Stop these: they are not yours any more.
    pub stale: Vec<RunId>,
    /// Take no more tasks; finish what you have and leave.
    pub drain: bool,
}
