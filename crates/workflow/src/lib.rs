//! Workflows: graphs of nodes and state machines that a person wrote and a server carries out.
//!
//! Enters: definitions as people write them, and what came in for a run. Leaves: what is wrong with a definition, pictures of
//! it, and what a run does next, as records. Nothing here waits, stores or calls.

pub mod blueprint;
pub mod compile;
pub mod draw;
pub mod expression;
pub mod flow;
pub mod node;
pub mod nodes;
pub mod program;
pub mod reach;
