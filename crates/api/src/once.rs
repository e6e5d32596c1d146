//! Requests that make no job, carried out once for the caller's `Idempotency-Key`.

use bowline_model::Timestamp;
use bowline_model::idempotency::RequestHash;
use bowline_store::{Once, OnceKey, OnceOutcome, StoreError};
use hyper::HeaderMap;

use crate::jobs::{header_key, key_conflict};
use crate::problem::Problem;

/// The caller's key, with what is requested under it.
pub fn once_key(headers: &HeaderMap, parts: &[&[u8]]) -> Result<Option<OnceKey>, Problem> {
    Ok(header_key(headers)?.map(|key| OnceKey { key, hash: RequestHash::of_parts(parts) }))
}

/// Who made the request before, and when.
pub struct Before {
    pub by: String,
    pub at: Timestamp,
}

/// What became of a request under `key`, and whether that was before.
pub fn outcome(key: &str, once: Once) -> Result<(OnceOutcome, Option<Before>), Problem> {
    match once {
        Once::Done(outcome) => Ok((outcome, None)),
        Once::Replayed { outcome, by, at } => Ok((outcome, Some(Before { by, at }))),
        Once::KeyConflict => Err(key_conflict(key)),
    }
}

/// For a ledger that answers something else than it was asked.
pub fn strange() -> Problem {
    StoreError::Broken("the ledger answered another request".to_owned()).into()
}
