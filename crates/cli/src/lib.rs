//! The client side of the command line.
//!
//! Enters: arguments that clap has understood, and the server's answers, which are not trusted.
//! Leaves: requests to the HTTP API, text or JSON on standard output, remarks on standard error, an exit code.
//! Never here: the ledger, the engine, configuration of a server. Whatever this room can do, anybody can do over HTTP.
//!
//! The binary flattens [`Connection`] into its options and [`ClientCommand`] into its commands, and calls [`run`].

mod actor;
mod agents;
mod approvals;
pub mod audit;
mod blocks;
mod client;
mod clock;
mod command;
mod connection;
mod context;
mod dlq;
mod duration;
mod evaluations;
mod events;
mod evidence;
mod exit;
mod failure;
mod fleet;
mod hosts;
mod interrupt;
mod job;
mod job_ref;
mod lanes;
mod listing;
mod output;
mod quota;
mod repeat;
mod resource;
mod run;
mod schedule;
mod secret;
mod source;
mod suggest;
mod tenant;
mod token;
mod trigger;
mod wait;
mod whoami;
mod workers;
mod workflow;

pub use command::{ClientCommand, run, run_on};
pub use connection::{Connection, DEFAULT_SERVER, DEFAULT_TOKEN_FILE, Secret};
pub use context::apply as apply_context;
pub use duration::{NotADuration, Span};
pub use exit::Exit;
pub use output::{Output, Screen, document};
