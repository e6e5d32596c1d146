//! What our tests stand on: a real PostgreSQL, a real sshd, a real RabbitMQ, a hostile network, an honest witness, a wrong
//! clock, and processes that can be killed.
//!
//! Enters: a test that wants to break something. Leaves: evidence that it was broken (pids, counters, lines in a file).
//! Never here: anything of Bowline itself. An oracle that shares code with what it judges would share its mistakes.
//!
//! Nothing outlives its test. Guards clean up when they are dropped, also by a panic; and when the test process is
//! killed outright, the kernel ends the children ([`process`]) and the next start sweeps what is left on disk.
//!
//! Every call may be made from plain and from async tests: what needs a runtime brings its own, on its own thread.

mod backstage;
mod certificates;
pub mod companion;
mod nursery;
mod port;
pub mod postgres;
mod proc_table;
pub mod process;
pub mod proxy;
pub mod rabbitmq;
mod room;
pub mod scripted;
mod signal;
pub mod sink;
pub mod sshd;
mod until;
mod url;
mod workshop;
mod wrong_clock;

pub use certificates::{Authority, Issued};
pub use port::free_port;
pub use postgres::{Postgres, TestDatabase, connect, fresh_database};
pub use process::Child;
pub use proxy::{ChaosProxy, Direction};
pub use rabbitmq::{BrokerAddress, RabbitMq, shared_rabbitmq};
pub use scripted::ScriptedServer;
pub use sink::{Sink, SinkLine};
pub use sshd::{Sshd, SshdOptions};
pub use until::{Sighting, until};
pub use wrong_clock::WrongClock;
