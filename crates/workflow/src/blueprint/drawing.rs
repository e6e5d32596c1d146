//! A blueprint as a graph of its states, to be drawn.

use bowline_model::blueprint::{Action, BlueprintSpec, StateSpec};
use bowline_model::workflow::{EdgeSpec, NodeId, NodePolicy, NodeSpec, WorkflowSpec};
use serde_json::Map;

use crate::draw::Statuses;

/// A graph with a node for each state and an edge for each way that is known beforehand. It is there to be looked at, and
/// cannot be run.
pub fn of(spec: &BlueprintSpec) -> WorkflowSpec {
    let mut edges = Vec::new();
    let nodes = spec.states.iter().map(|(name, state)| {
        edges.extend(ways(name, state));
        NodeSpec {
            id: name.as_str().into(),
            node_type: kind(name == &spec.start, state).to_owned(),
            config: Map::new(),
            policy: NodePolicy::default(),
            undo: None,
            label: None,
            position: None,
        }
    });
    let nodes = nodes.collect();
    WorkflowSpec {
        description: spec.description.clone(),
        nodes,
        edges,
        variables: Map::new(),
        on_error: None,
        max_steps: spec.max_steps,
    }
}

/// The type of node that a state looks most like.
fn kind(is_start: bool, state: &StateSpec) -> &'static str {
    match state.actions.iter().find(|action| action.leads_on()) {
        _ if state.is_final || state.failed => "end",
        _ if is_start => "start",
        Some(Action::DispatchParallel(_)) => "foreach",
        Some(Action::AwaitApproval(_)) => "approval",
        Some(Action::RunBlueprint(_)) => "workflow",
        Some(Action::Sleep(_)) => "sleep",
        Some(Action::DispatchTask(_)) => "task",
        _ if state.handler.is_some() => "task",
        _ => "condition",
    }
}

fn ways<'a>(name: &'a str, state: &'a StateSpec) -> impl Iterator<Item = EdgeSpec> + 'a {
    let edge = move |on: String, to: &str| EdgeSpec { source: name.into(), target: to.into(), on };
    let actions = state.actions.iter().flat_map(Action::targets).map(move |(path, to)| {
        let on = path.rsplit_once(".transitions.").map_or("success", |(_, word)| word);
        edge(on.to_owned(), to)
    });
    // What is left when no guard holds, if there are guards.
    let rest =
        if state.transitions.iter().any(|transition| transition.when.is_some()) { "otherwise" } else { "success" };
    let guards = state
        .transitions
        .iter()
        .map(move |transition| edge(transition.when.clone().unwrap_or_else(|| rest.to_owned()), &transition.to));
    let failure = state.on_failure.iter().map(move |to| edge("failure".to_owned(), to));
    actions.chain(guards).chain(failure)
}

/// How the states stand, if their nodes stand like this: what a state does counts more than that it was entered.
pub fn of_states(nodes: &Statuses) -> Statuses {
    let mut states = nodes.clone();
    for (node, status) in nodes {
        if let Some(state) = node.as_str().strip_suffix(".act") {
            states.remove(node);
            states.insert(NodeId::from(state), *status);
        }
    }
    states.remove(&NodeId::from(super::START));
    states
}
