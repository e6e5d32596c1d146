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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_signed_differs_with_every_part_of_a_head() {
        let head = Head { chain: Chain::System, number: 1, hash: Digest::of(b"a"), at: Timestamp::from_millis(5) };
        let tenant = Chain::from_uuid(uuid::Uuid::from_u128(7));
        let others = [
            Head { chain: tenant, ..head },
            Head { number: 2, ..head },
            Head { hash: Digest::of(b"b"), ..head },
            Head { at: Timestamp::from_millis(6), ..head },
        ];
        for other in others {
            assert_ne!(other.statement(), head.statement(), "{other:?}");
        }
        assert_eq!(head.statement(), head.statement());
        assert!(head.statement().ends_with(b"5000"), "the moment, in microseconds");
    }

    #[test]
    fn keys_and_signatures_are_hex_digits() {
        let head = Head { chain: Chain::System, number: 1, hash: Digest::NONE, at: Timestamp::default() };
        let signed = |key: String, signature: String| SignedHead { head, key, signature };
        let good = signed("ab".repeat(32), "cd".repeat(64));
        assert_eq!((good.key_bytes(), good.signature_bytes()), (Some([0xab; 32]), Some([0xcd; 64])));
        let bad = signed("ab".repeat(31), "xy".repeat(64));
        assert_eq!((bad.key_bytes(), bad.signature_bytes()), (None, None));
    }
}
