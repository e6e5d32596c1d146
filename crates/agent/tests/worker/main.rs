//! A worker against a server that misbehaves, by capability. The server is a small scripted fake: what is tested is
//! what goes over the wire, and what handlers get to see.

#![expect(clippy::unwrap_used, reason = "all of this is a test, its helpers too")]

mod accept;
mod fake;
mod lease;
mod leaving;
mod outcome;
mod progress;
mod register;
mod results;
