//! What moves jobs.
//!
//! The engine sees the ledger through its ports and nothing else: no SQL, no HTTP. What reaches other servers goes through
//! `bowline-connect` and `bowline-amqp`. Its loops are reconcilers: woken by a
//! bell or a timer, given no input, safe to repeat, safe to run on several servers at once.

pub mod aside;
mod brokers;
pub mod builtin;
mod checks;
mod clock_watch;
mod dispatcher;
mod engine;
pub mod evaluations;
mod figures;
#[cfg(test)]
mod fixture;
pub mod fleet;
pub mod flow;
mod intake;
mod keyed;
pub mod output;
mod pruner;
mod quotas;
mod reaper;
pub mod results;
pub mod rights;
mod scheduler;
pub mod secrets;
mod settings;
mod starter;
mod tail;
mod tenants;
mod timers;
pub mod triggers;
mod watermark;
mod why;

pub use bowline_connect::egress::TenantRules;
pub use checks::Checks;
pub use clock_watch::{explain as explain_clock, watch_clock};
pub use dispatcher::Dispatcher;
pub use engine::{Engine, Services};
pub use figures::Figures;
pub use intake::{Intake, JobRequest};
pub use quotas::{PendingRoom, QuotaExceeded, QuotaLimits, Quotas, Room};
pub use scheduler::{Looked, Scheduler, TriggerError};
pub use settings::EngineSettings;
pub use starter::{Ask, StartError, Starter, command_request};
pub use tail::{Tail, TailItem};
pub use why::{Reason, Why};
