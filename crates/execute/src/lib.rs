//! What happens on the machine where a command is executed.
//!
//! Enters: a [`Manifest`] that says what to execute, and the values of its secrets. Leaves: a run directory whose
//! `events.log` says what happened, and the command's output beside it, on disk before anybody is told.
//! Never here: a server, HTTP, a store, an async runtime. Whoever ships what is written here is somebody else; so an
//! outage anywhere delays what people see, and never changes what happened.
//!
//! Two processes share this crate. The *agent* holds [`Runs`]: it begins runs, reads what they wrote, and frees them.
//! Each run belongs to a [`keeper`], a small process of its own that outlives the agent; only what the agent executes
//! elsewhere ([`Inside`]) is its own. They meet in the run directory:
//!
//! | file | written by | what it says |
//! |---|---|---|
//! | `manifest.json` | agent, once | what to execute |
//! | `keeper.lock` | locked by the agent, handed to the keeper | whether a keeper lives; also its last words |
//! | `started` | keeper, once, before the command is spawned | that the run was started: nobody ever starts it again |
//! | `events.log` | keeper; the agent only when the keeper is gone | what happened, numbered |
//! | `stdout`, `stderr` | keeper | the output, secrets replaced |
//! | `cancel` | agent | that the run should end |
//! | `reserve` | agent | room for the last events on a full disk |
//! | `work/` | agent, for the command's user | where the command works unless told otherwise |
//! | `tmp/` | the same | what the command has for `/tmp` in a sandbox |
//!
//! Nothing but `work` and `tmp` belongs to the command's user, if that is another one than the agent's; the directory itself
//! can then be passed through by that user, and not be read.

#[cfg(target_os = "linux")]
mod disk;
#[cfg(target_os = "linux")]
mod isolation;
#[cfg(target_os = "linux")]
pub mod keeper;
pub mod log;
mod manifest;
#[cfg(target_os = "linux")]
mod place;
#[cfg(target_os = "linux")]
mod process;
pub mod redact;
#[cfg(target_os = "linux")]
mod runs;
mod secrets;
pub mod simulate;

pub use bowline_model::fleet::{Limits, Sandbox};
#[cfg(target_os = "linux")]
pub use isolation::{Machine, NoSandbox, close_proc};
pub use log::{ChildProcess, Children, ChildrenBecame, Ended, EndedAs, Happening, HeldBy, Record, Stream, Truncation};
pub use manifest::{BadManifest, HostLock, Manifest, RunUser};
#[cfg(target_os = "linux")]
pub use process::Identity;
#[cfg(target_os = "linux")]
pub use runs::*;
pub use secrets::Secrets;

/// The executor's clock. It says when a thing happened, for people; nothing is decided by it.
pub type Clock = std::sync::Arc<dyn Fn() -> bowline_model::Timestamp + Send + Sync>;
