//! `POST /workers/register`: who I am and what I can do.

use bowline_model::{Labels, TaskType, WorkerName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SealingOffer;

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegisterRequest {
    pub worker_id: WorkerName,
    /// What sort of worker it is, for people: `cpu`, `gpu`, anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_type: Option<String>,
    /// The task types it takes.
    pub task_types: Vec<TaskType>,
    /// Labels it has. Those that its token does not have are only shown, unless the token has `own_labels`.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// How many tasks it works on at once.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100_000))]
    pub slots: u32,
    /// What it has, such as `{"gpu": 2, "memory_gb": 16}`. Numbers are kept, those of inner objects as `outer.inner`, and jobs
    /// may require at least so much of them. Everything else is for people, and not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<serde_json::Value>,
    /// An agent's key for secrets. Without one it gets no task that needs secrets of the server.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "bowline_model::shape::maybe_by_name"
    )]
    pub sealing: Option<SealingOffer>,
    /// For agents: commands may run as the agent's own user, with its directory open to them. An agent that does not say is
    /// taken to share its user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares_agent_user: Option<bool>,
}

const fn one() -> u32 {
    1
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RegisterAnswer {
    pub worker_id: WorkerName,
    pub protocol: u32,
    /// How often to send a heartbeat.
    pub heartbeat_ms: u64,
    /// How long a lease is good without one.
    pub lease_ms: u64,
    /// How long a worker may take to name a task it was handed.
    pub accept_ms: u64,
    /// For agents: in how many seconds to renew the credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_after_s: Option<u64>,
    /// The labels that decide what it is handed: those of its token, and its own where the token allows that.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Labels it stated that decide nothing, because its token does not have them.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub claimed_labels: Labels,
}
