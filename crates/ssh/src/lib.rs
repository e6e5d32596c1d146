//! Commands on hosts that have no agent, over SSH, on thousands of them from one process.
//!
//! Enters: a [`Target`], a [`RemoteCommand`] and somewhere to put its output. Leaves: how the command ended there, or an
//! [`SshError`] that says what is known about its effect: it was not started, it was stopped, or nobody can tell.
//! Never here: servers, jobs, run directories, the ledger. Whether a command may be tried again is for those to decide
//! who know what it does.
//!
//! - **A host is known before it is spoken to.** Its key must be in a `known_hosts` file; a changed key is never accepted.
//! - **Arguments are data.** Whatever an argument contains, the program on the other side gets it as one argument.
//! - **Secrets travel through standard input**, never through a command line that others can list.
//! - **Connections are kept** while they are used and for a while after, and shared by commands to the same target.

mod command;
mod connection;
mod error;
mod exec;
mod host_key;
mod identity;
mod known_hosts;
mod output;
mod pool;
mod secret;
mod settings;
mod target;

pub use command::{BadCommand, ChildSearch, ChildrenSeen, LeftChildren, RemoteCommand, RemoteExit};
pub use error::{ConnectError, Effect, Lost, NotStarted, SshError, StopCause, StopEnd, Stopped};
pub use host_key::{HostKeyFault, HostKeyProblem};
pub use output::{Collected, Output, OutputSink, Stream};
pub use pool::SshPool;
pub use secret::Secret;
pub use settings::{BadSettings, HostKeyRule, Passphrases, SshSettings};
pub use target::{BadTarget, Target};
