//! Triggers: every message of a queue starts something, once, and is acknowledged when the ledger has it.
//!
//! *Reading*: a server's standing connection to the queue of a trigger. Several servers may read one queue; the broker gives
//! each message to one of them. *Refused*: of a message: nothing can be started with it, now or later. *Held*: of a message:
//! the ledger could not be asked, so it is neither acknowledged nor given back, and asked for again.
//!
//! The order of things is the whole promise: the job is stored under the message's own name, then the broker hears of it.
//! Whoever dies in between gets the message again, and finds the job.

mod hand;
mod keeper;
mod message;
mod standing;
#[cfg(test)]
mod tests;

pub use keeper::Triggers;
pub use standing::{Mishap, Standing};
