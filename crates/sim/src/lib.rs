//! Deterministic simulation of the ledger.
//!
//! The real engine and the real SQL ledger run on one thread, in virtual time, while everything around them misbehaves by
//! the roll of a seeded die: the store is away, conflicts, or keeps its answers; the network loses requests and answers;
//! servers crash; workers freeze, die, come back from the dead and repeat themselves. In many simulations there is a fleet as
//! well: machines that lose power or their wire, agents and keepers that are killed, people who approve, reject, forbid and
//! change their minds. Others are about workflows: graphs that are rolled, two servers that turn the same runs, people who steer,
//! cancel, retry and fork them. Independent witnesses write down what they saw, and at the end their notes and the ledger must agree.
//!
//! A seed that fails is printed, and replays exactly: `cargo run -p bowline-sim -- --seed N`, with `--scene flows` for one
//! of workflows.

mod clock;
mod faults;
mod fleet;
mod flow;
mod network;
mod oracle;
mod people;
mod plan;
mod run;
mod server;
mod workers;
mod world;

pub use fleet::FleetCounts;
pub use flow::FlowCounts;
pub use oracle::Violation;
pub use plan::Scene;
pub use run::{Report, simulate, simulate_flows};
