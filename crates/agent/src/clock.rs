//! The wall clock, for the one thing that needs it: saying when a progress event happened.
//!
//! Never here: leases, timeouts, backoff. Those go by the monotonic clock.

use std::time::{SystemTime, UNIX_EPOCH};

use bowline_model::Timestamp;

#[expect(
    clippy::disallowed_methods,
    reason = "this is the edge: the worker's own clock, shown to people, never decided on"
)]
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
