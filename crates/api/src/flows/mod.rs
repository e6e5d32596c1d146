//! Runs of workflows: asking for them, looking at every step of them, steering them, going on from any step.

mod context;
mod fork;
mod graph;
mod node_types;
mod problem;
mod shadow;
mod signal;
mod steer;
mod steps;
mod submit;
mod view;

pub use context::{ContextQuery, ContextView, context};
pub use fork::{ForkRequest, ForkView, fork};
pub use graph::{GraphQuery, graph};
pub use node_types::{NodeTypeList, node_types};
pub use problem::{bad_definition, not_taken};
pub use shadow::{ShadowRequest, ShadowView, shadow};
pub use signal::{SignalRequest, SignaledView, TellRequest, signal, tell};
pub use steer::{SteerRequest, SteeredView, hear, steer};
pub use steps::{StepList, StepsQuery, steps};
pub use submit::{FlowWish, Unbegun};
pub use view::WorkflowView;
