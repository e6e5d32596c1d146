//! Faults with real processes. Each leaves evidence that it happened.

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each test program uses its part of it")]
mod support;

mod after_commit;
mod closing;
mod commit_answer;
mod crash;
mod disk;
mod fleet;
mod frozen;
mod handout;
mod mid_call;
mod mid_request;
mod outage;
mod poison;
mod stalled;
mod triggers;
mod workflow;
mod zombie;
