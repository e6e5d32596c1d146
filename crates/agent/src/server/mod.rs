//! Our side of the talk with a server: what every program that takes tasks has to say and hear.
//!
//! Enters: who we are, and somebody who has runs in hand. Leaves: tasks that were handed to us, and what the server wants
//! done about them. Never here: what becomes of a task. The worker library and the fleet agent decide that, each for itself.

pub(crate) mod backoff;
pub(crate) mod client;
pub(crate) mod confirm;
pub(crate) mod lease_loop;
pub(crate) mod link;
pub(crate) mod poll_loop;
pub(crate) mod registration;
