//! The task type `http_request`: one call to somebody else's server, and its answer as the job's result.
//!
//! Enters: a payload that says what to ask. Leaves: status, headers and body of the answer; or a failure whose class says
//! whether asking again can help. Every attempt at a job sends the same `Idempotency-Key`, so whoever is asked twice can do
//! it once. Never here: where calls may lead, which is `bowline-connect`; and the value of a secret in anything that leaves.

mod handler;
mod output;
mod payload;
mod retry_after;

pub use handler::HttpRequest;
