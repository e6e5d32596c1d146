//! Pictures of workflows: Mermaid text for whoever has a renderer, SVG for everybody else.
//!
//! Enters: a definition, right or wrong, and how its nodes stand in a run, if it is a run that is drawn. Leaves: text. The
//! same definition gives the same picture.

mod layout;
mod look;
mod mermaid;
mod outline;
mod svg;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bowline_model::workflow::{NodeId, WorkflowSpec};

pub use outline::{OutlineLine, OutlineWay, outline};

/// How a node stands in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeStatus {
    Done,
    Failed,
    /// It waits for something.
    Waiting,
    /// It is the next one, or is being carried out.
    Current,
}

/// How the nodes of a run stand; those that it has not come to are missing.
pub type Statuses = BTreeMap<NodeId, NodeStatus>;

/// A workflow as Mermaid has flowcharts.
pub fn mermaid(spec: &WorkflowSpec, statuses: &Statuses) -> String {
    mermaid::draw(&Picture::of(spec, statuses))
}

/// A workflow as SVG, for light and for dark surroundings.
pub fn svg(spec: &WorkflowSpec, statuses: &Statuses) -> String {
    svg::draw(&Picture::of(spec, statuses))
}

/// What is drawn: nodes by number, and edges between nodes that exist.
struct Picture<'a> {
    nodes: Vec<Node<'a>>,
    edges: Vec<Edge<'a>>,
    /// The node that takes over when something fails.
    handler: Option<usize>,
}

struct Node<'a> {
    /// What people call it.
    name: &'a str,
    node_type: &'a str,
    status: Option<NodeStatus>,
}

struct Edge<'a> {
    source: usize,
    target: usize,
    /// What it is taken on; nothing for success.
    on: Option<&'a str>,
    /// Taken only when something went wrong.
    is_for_failures: bool,
}

impl<'a> Picture<'a> {
    fn of(spec: &'a WorkflowSpec, statuses: &Statuses) -> Self {
        let mut by_id = BTreeMap::new();
        for (index, node) in spec.nodes.iter().enumerate() {
            by_id.entry(&node.id).or_insert(index);
        }
        let nodes = spec.nodes.iter().map(|node| Node {
            name: node.label.as_deref().filter(|label| !label.is_empty()).unwrap_or(node.id.as_str()),
            node_type: &node.node_type,
            status: statuses.get(&node.id).copied(),
        });
        let edges = spec.edges.iter().filter_map(|edge| {
            let (source, target) = (*by_id.get(&edge.source)?, *by_id.get(&edge.target)?);
            let on = Some(edge.on.as_str()).filter(|on| *on != "success");
            Some(Edge { source, target, on, is_for_failures: on == Some("failure") })
        });
        let undos = spec.nodes.iter().filter_map(|node| {
            let (source, target) = (*by_id.get(&node.id)?, *by_id.get(node.undo.as_ref()?)?);
            Some(Edge { source, target, on: Some("undo"), is_for_failures: true })
        });
        let handler = spec.on_error.as_ref().and_then(|id| by_id.get(id).copied());
        Self { nodes: nodes.collect(), edges: edges.chain(undos).collect(), handler }
    }
}
