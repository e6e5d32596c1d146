//! Blueprints: state machines, made into the same programs as graphs.
//!
//! Enters: a [`BlueprintSpec`](bowline_model::blueprint::BlueprintSpec) as somebody wrote it, or a program made it. Leaves:
//! a [`Program`](crate::program::Program), or everything that is wrong.
//!
//! A state `paid` is two nodes. `paid` asks the handler, if there is one, and changes data; its output is what the handler
//! wants done. `paid.act` does it, waits for its end, and goes to the next state. What must be known from one to the other
//! lies in the context, where everybody can look at it, change it and begin again from it. The data of a run are its
//! variables; before all states comes the node `blueprint.start`, which makes variables of what the run was given.
//!
//! A text in a blueprint may have places. What a handler answers has none, whatever braces stand in it: a value is never
//! evaluated.

mod act;
mod compile;
mod cycles;
mod data;
pub mod drawing;
mod enter;
mod perform;
mod render;
#[cfg(test)]
mod tests;

pub use data::check_data;

use std::collections::BTreeSet;
use std::sync::Arc;

use bowline_model::workflow::NodeId;

/// The states of a blueprint, for whoever must know whether there is such a state.
type States = Arc<BTreeSet<String>>;

/// The node before all states.
const START: &str = "blueprint.start";

/// The node in which a state does what it wants done.
fn act_of(state: &str) -> NodeId {
    NodeId(format!("{state}.act").into())
}
