//! Runs of workflows, simulated: graphs that are rolled like everything else, workers that do their tasks, people who
//! decide, steer, cancel, retry and fork, and two servers that turn the same runs.
//!
//! The engine, the ledger and the room `workflow` are the real ones. A witness reads the records of every run while it goes
//! on, and judges them by the contract, not by the code that wrote them.

mod counts;
mod graph;
mod judge;
mod notes;
mod people;
mod records;
mod stage;
mod watch;

pub use counts::FlowCounts;
pub use judge::judge;
pub use notes::FlowNotes;
pub use stage::{at_rest, hash_into, let_go, set_up, start};
pub use watch::watch;
