//! Asking twice is asking once.
//!
//! A key belongs to a tenant. The unique row decides who was first; this file decides what the second one is told.

use sha2::{Digest, Sha256};

use crate::id::JobId;

/// What a request asked for, as a number that two equal requests share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestHash([u8; 32]);

impl RequestHash {
    /// The hash of a request in its canonical parts. Each part is preceded by its length, so that parts cannot flow
    /// into one another.
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Which sort of key it is. They do not collide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyScope {
    /// `Idempotency-Key`, or `idempotency_key` in the body.
    Idempotency,
    /// The sender's own name for the request.
    External,
    /// A schedule and its instant.
    Schedule,
    /// A trigger and a message.
    Trigger,
}

impl KeyScope {
    /// The number the ledger keeps. Never reuse one.
    pub const fn code(self) -> i64 {
        match self {
            Self::Idempotency => 1,
            Self::External => 2,
            Self::Schedule => 3,
            Self::Trigger => 4,
        }
    }
}

/// What a key that is already taken means for the next request that carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecondAsk {
    /// The same request: the same job is the answer.
    Same(JobId),
    /// Another request under the same key.
    Conflict(JobId),
}

pub fn second_ask(first: RequestHash, job: JobId, second: RequestHash) -> SecondAsk {
    if first == second { SecondAsk::Same(job) } else { SecondAsk::Conflict(job) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    #[test]
    fn parts_do_not_flow_into_one_another() {
        assert_ne!(RequestHash::of_parts(&[b"ab", b"c"]), RequestHash::of_parts(&[b"a", b"bc"]));
        assert_ne!(RequestHash::of_parts(&[b"ab"]), RequestHash::of_parts(&[b"ab", b""]));
    }

    #[test]
    fn a_hash_is_kept_as_bytes_and_shown_in_hex() {
        let mut bytes = [0; 32];
        (bytes[0], bytes[31]) = (0x0f, 0xa0);
        let hash = RequestHash::from_bytes(bytes);
        assert_eq!(hash.as_bytes(), &bytes);
        assert_eq!(hash.to_hex(), format!("0f{}a0", "00".repeat(30)));
    }

    #[test]
    fn sorts_of_keys_have_numbers_of_their_own() {
        let sorts = [KeyScope::Idempotency, KeyScope::External, KeyScope::Schedule, KeyScope::Trigger];
        assert_eq!(sorts.map(KeyScope::code), [1, 2, 3, 4]);
    }

    #[test]
    fn the_same_body_is_the_same_job_and_another_body_is_a_conflict() {
        let job = JobId::mint(Timestamp::from_millis(1), [1; 10]);
        let (a, b) = (RequestHash::of_parts(&[b"a"]), RequestHash::of_parts(&[b"b"]));
        assert_eq!(second_ask(a, job, a), SecondAsk::Same(job));
        assert_eq!(second_ask(a, job, b), SecondAsk::Conflict(job));
    }
}
