//! How an agent shows the key to which secrets for it are sealed: when it registers, signed by the key it enrolled with.

use bowline_model::WorkerName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SealingOffer {
    /// Its X25519 public key, in standard base64. The private half never leaves the agent.
    pub public_key: String,
    /// The signature of [`sealing_message`] by the agent's Ed25519 key, in standard base64. A stolen credential alone cannot
    /// have secrets sealed to another key.
    pub signature: String,
}

/// What an agent signs about its sealing key.
pub fn sealing_message(name: &WorkerName, public_key: &[u8; 32]) -> Vec<u8> {
    let mut message = format!("bowline sealing 1\n{name}\n").into_bytes();
    message.extend_from_slice(public_key);
    message
}
