//! Commands on hosts, simulated: machines with agents and keepers, people who ask, approve, forbid and change their minds.
//!
//! The ledger, the conductor, the approvals and the decisions of the agent are the real ones. Made up are only the things
//! they act on: the disk of a machine, its processes, the network, and the people.

mod agent;
mod begin;
mod counts;
mod door;
mod fate;
mod keeper;
mod machine;
mod notes;
mod oracle;
mod people;
mod rollout;
mod ship;
mod stage;

pub use counts::FleetCounts;
pub use machine::Machine;
pub use notes::FleetNotes;
pub use oracle::judge;
pub use stage::{Fleet, at_rest, count, set_up, start, stop};
