//! Claiming: which waiting run comes next, and who gets it.
//!
//! *Channel*: one line of the queue: the waiting runs of one tenant, lane, task type and set of required labels. Within
//! a channel the order is priority, then age. Between channels it is decided here.

mod assign;
mod plan;

pub use assign::{Demand, assign};
pub use plan::{ChannelHead, Share, plan};
