//! Requests that are carried out once for their key, where they make no job.

use bowline_model::idempotency::RequestHash;

/// A caller's key for a request, and what was requested under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceKey {
    pub key: String,
    pub hash: RequestHash,
}
