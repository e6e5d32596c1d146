//! Where a chain ended at a moment, and somebody's word for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::chain::Chain;
use super::digest::{Digest, hex};
use super::record::put;
use crate::time::Timestamp;

/// The last record of a chain at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Head {
    pub chain: Chain,
    pub number: u64,
    pub hash: Digest,
    pub at: Timestamp,
}

const DOMAIN: &[u8] = b"bowline audit head 1";

impl Head {
    /// What is signed.
    pub fn statement(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(160);
        put(&mut bytes, Some(DOMAIN));
        put(&mut bytes, Some(self.chain.as_bytes()));
        put(&mut bytes, Some(self.number.to_string().as_bytes()));
        put(&mut bytes, Some(self.hash.as_bytes()));
        put(&mut bytes, Some(self.at.as_micros().to_string().as_bytes()));
        bytes
    }
}

/// A head with an Ed25519 signature of its [`Head::statement`]. One line of JSON, wherever it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedHead {
    #[serde(flatten)]
    pub head: Head,
    /// The public key, as hex digits.
    pub key: String,
    /// As hex digits.
    pub signature: String,
}

impl SignedHead {
    pub fn key_bytes(&self) -> Option<[u8; 32]> {
        hex(&self.key)
    }

    pub fn signature_bytes(&self) -> Option<[u8; 64]> {
        hex(&self.signature)
    }
}
