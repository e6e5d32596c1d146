//! The commands against a server that says what it is told to say: what they ask, what they print, how they end.

#![expect(clippy::unwrap_used, reason = "all of this is a test, its helpers too")]

mod admin;
mod approvals;
mod blocks;
mod dead_letters;
mod events;
mod failures;
mod fake;
mod help;
mod hosts;
mod jobs;
mod logs;
mod names;
mod output;
mod resources;
mod run;
mod submit;
mod waiting;
mod watch;
mod workflow;
