//! Tasks that fall, and a house that closes well.
//!
//! Nothing long-lived is spawned by hand: a task has a kind, and the kind says what falls with it, panics included.

pub mod meters;
mod supervisor;

pub use meters::Meters;
pub use supervisor::{OnFailure, Supervisor, TaskKind};
