//! Workflows: graphs of nodes that a person drew and a server carries out.
//!
//! Enters: definitions as people write them, and the context of a run. Leaves: what is wrong with a definition, and what
//! its expressions mean. Nothing here waits, stores or calls.

pub mod blueprint;
pub mod compile;
pub mod draw;
pub mod expression;
pub mod flow;
pub mod node;
pub mod nodes;
pub mod program;
