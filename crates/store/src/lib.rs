//! Storage ports: what the engine may ask of a ledger.
//!
//! A trait per noun, requests as plain structs that read like filled-in forms, and four outcomes for every call: `Ok`
//! is *committed*; [`StoreError`] names the other three. What a rule refuses (a stale lease, a key that is taken) is
//! not an error but an answer, and stands in the answer's type.
//! Never here: SQL, connections, a decision. Decisions are in `model`; adapters load, decide there, and write.

mod agents;
mod apply;
mod audit;
mod bounds;
pub mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod dead_letters;
mod error;
mod events;
mod evidence;
mod fleet;
mod flows;
mod hosts;
mod jobs;
mod ledger_clock;
mod maintenance;
mod observer;
mod once;
mod output;
mod resources;
mod runs;
mod schedules;
mod tokens;
mod wake;
mod workers;

pub use agents::*;
pub use apply::*;
pub use audit::*;
pub use bounds::*;
pub use clock::{Clock, ManualClock, SteadyClock};
pub use dead_letters::*;
pub use error::StoreError;
pub use events::*;
pub use evidence::*;
pub use fleet::*;
pub use flows::*;
pub use hosts::*;
pub use jobs::*;
pub use ledger_clock::{ClockAccepted, ClockStatus, LedgerClock};
pub use maintenance::*;
pub use observer::Observer;
pub use once::{Once, OnceKey, OnceOutcome, OnceRequest, OnceStore};
pub use output::*;
pub use resources::*;
pub use runs::*;
pub use schedules::*;
pub use tokens::*;
pub use wake::{Wake, WakeListener};
pub use workers::*;

/// Everything the ledger is, behind one handle.
pub trait Ledger:
    std::fmt::Debug
    + JobStore
    + RunStore
    + DeadLetterStore
    + EventStore
    + TokenStore
    + TenantStore
    + WorkerStore
    + HostStore
    + ResourceStore
    + ScheduleStore
    + FleetStore
    + FlowStore
    + AgentStore
    + EvidenceStore
    + OutputStore
    + AuditStore
    + BoundsStore
    + OnceStore
    + MaintenanceStore
{
    /// Rung after a commit that gave workers something to do.
    fn work_wake(&self) -> &Wake;
    /// Rung after a commit that added events.
    fn event_wake(&self) -> &Wake;
    /// Rung after a commit that gave commands on hosts something to do next.
    fn fleet_wake(&self) -> &Wake;
    /// Rung after a commit that gave runs of workflows something to hear.
    fn flow_wake(&self) -> &Wake;
    /// Rung after a commit that changed when the next timer is due.
    fn timer_wake(&self) -> &Wake;
}

pub type StoreResult<T> = Result<T, StoreError>;
