//! Runs: one attempt each.

mod status;

pub use status::{Outcome, Refused, RunFact, RunStatus};
