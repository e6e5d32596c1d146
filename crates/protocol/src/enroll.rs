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

/// `POST /agents/renew`: an agent gets a new credential in place of the one it calls with.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    /// The signature of [`renew_message`] by the key the agent enrolled with, in standard base64. A stolen credential alone
    /// cannot be renewed.
    pub signature: String,
}

/// What an agent signs when it renews its credential, which is the credential of the request.
pub fn renew_message(credential: &str, name: &WorkerName) -> Vec<u8> {
    format!("bowline renew 1\n{name}\n{credential}").into_bytes()
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RenewAnswer {
    pub name: WorkerName,
    /// The agent's new credential, shown once. The old one stays good for a day.
    pub token: String,
    /// In how many seconds to renew this one: half of its life.
    pub renew_after_s: u64,
}
