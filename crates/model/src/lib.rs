//! What things are and how they change.
//!
//! Enters: facts that already happened, the time it is now, and chance as a plain number.
//! Leaves: the next state, and the effects to carry out once that state is stored.
//! Never here: async, storage, clocks, randomness, I/O, iteration over hash maps. Whoever reads a rule here
//! reads all of it, and whoever tests it needs nothing but values.

pub mod admission;
pub mod audit;
pub mod blueprint;
pub mod broker;
pub mod claim;
pub mod clock;
pub mod dead_letter;
pub mod error;
pub mod event;
pub mod fleet;
pub mod flow;
pub mod fold;
pub mod host;
pub mod id;
pub mod idempotency;
pub mod job;
pub mod lane;
pub mod lease;
pub mod name;
pub mod person;
pub mod planted;
pub mod question;
pub mod read_all;
pub mod resource;
pub mod retry;
pub mod run;
pub mod schedule;
pub mod secret;
pub mod shape;
pub mod start;
pub mod time;
pub mod trace;
pub mod trigger;
pub mod wording;
pub mod worker;
pub mod workflow;

pub use admission::Admission;
pub use error::{ErrorClass, RunError};
pub use event::{Event, EventKind, Severity};
pub use id::{EventId, JobId, RunId, TenantId};
pub use job::{JobKind, JobPolicy, JobState, JobStatus};
pub use lane::Lane;
pub use name::{GroupName, HostName, InventoryName, Labels, ResourceName, TaskType, WorkerName};
pub use retry::{Jitter, RetryPolicy, StartRetry};
pub use run::{Outcome, RunStatus};
pub use time::Timestamp;
