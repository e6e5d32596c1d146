//! The outside world: whatever Bowline asks of machines that tenants choose.
//!
//! Enters: a request that somebody wrote into a job. Leaves: the answer, or why there is none, in words that say nothing
//! about our own network. Never here: jobs, retries, secrets and where they come from; talking to our own server, which
//! is `bowline-http`. It also judges where connections to brokers may lead.

pub mod egress;

pub use reqwest::header;
pub use reqwest::{Method, StatusCode, Url};
