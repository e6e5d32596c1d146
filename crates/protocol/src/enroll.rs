//! `POST /agents/enroll`: an agent with a join token becomes one of ours.

use bowline_model::{Labels, WorkerName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnrollRequest {
    /// How it calls itself. Hosts that are reached by an agent of their own name the agent so.
    pub name: WorkerName,
    /// Its Ed25519 public key, in standard base64. The private half never leaves the agent.
    pub public_key: String,
    /// The signature of [`enroll_message`] by that key, in standard base64: it really has the private half.
    pub signature: String,
}

/// What an agent signs when it enrolls. The join token itself is the credential of the request.
pub fn enroll_message(join_token: &str, name: &WorkerName) -> Vec<u8> {
    format!("bowline enroll 1\n{name}\n{join_token}").into_bytes()
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EnrollAnswer {
    pub name: WorkerName,
    /// The agent's own credential, shown once.
    pub token: String,
    /// The labels the join token came with; the agent has them whatever it says about itself.
    pub labels: Labels,
}
