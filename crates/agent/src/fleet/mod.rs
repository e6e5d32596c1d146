//! The fleet agent: takes commands for hosts from a server, executes them, and keeps what happened until the server has
//! confirmed that it holds it.
//!
//! Enters: tasks of type `bowline.command`. Leaves: events, output, ends. Never here: a store, a listening socket, a wish
//! about what the server should decide.
//!
//! - **A run begins once.** It is accepted in a heartbeat first, and begun only while its lease is ours beyond doubt.
//! - **A run that has begun goes on**, whatever happens to the network, the server or this process. It is stopped by its
//!   time limit, or because somebody canceled it; never because heartbeats fail.
//! - **Nothing is freed before it is confirmed.** Bytes go before the record that names them, records before the end.
//!
//! *Local*: a run on this very host, in a directory and under a keeper of its own. *Remote*: on another host, over SSH, by this
//! process. *Simulated*: made up, in memory.
//! *Story*: what is to be told about a run: on disk for what was executed, in the [`outbox`] for what was not.

mod agent;
mod begin;
mod command;
mod dispatch;
mod error;
mod evidence;
mod guard;
mod heartbeat;
mod identity;
mod intake;
mod local;
mod outbox;
mod outcome;
mod recovery;
mod refusal;
mod remote;
mod renew;
mod roster;
mod sealing;
mod secrets;
mod settings;
mod shared;
mod ship;
mod simulate;
mod span;

pub use agent::FleetAgent;
pub use bowline_ssh::{HostKeyRule, SshSettings};
pub use error::FleetError;
/// What an agent decides, without anything it waits for: no disk, no network, no process. Here so that a simulation makes
/// the same decisions; not for programs.
#[doc(hidden)]
pub mod decisions {
    pub use super::command::{FillError, manifest};
    pub use super::outbox::Story;
    pub use super::outcome::run_end;
    pub use super::refusal::story as refusal;
    pub use super::roster::{Executor, Go, InHand, Orders, Roster};
    pub use super::ship::{AfterRefusal, Book, Sent};
}
pub use settings::{FleetSettings, IsolationSettings, Reach, ShownOutput, SimulateSettings};
