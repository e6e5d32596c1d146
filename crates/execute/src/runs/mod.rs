//! The agent's side: begins runs, finds them again, reads what they wrote, and frees them.
//!
//! Enters: manifests with the values of their secrets, and the word that the ledger holds everything. Leaves: events and
//! output. Truth is in the run directories; what is in memory can be read anew from them at any time.
//! Never here: what the server believes. A host that is busy here is busy, and what was executed here is not again.

mod abandon;
mod begin;
mod cancel;
mod forget;
mod gate;
mod inside;
mod journal;
mod memory;
mod open;
mod read;
mod recover;
mod settings;
mod settle;
mod standing;
mod state;
mod watcher;

pub use begin::{BeginError, Running};
pub use cancel::CancelError;
pub use forget::{Confirmed, ForgetError};
pub use gate::admit;
pub use inside::Inside;
pub use memory::{Executed, Memory};
pub use open::OpenError;
pub use read::ReadError;
pub use recover::{Recovered, Unreadable};
pub use settings::Settings;
pub use settle::SettleError;
pub use standing::{Found, Standing};
pub use state::Runs;
