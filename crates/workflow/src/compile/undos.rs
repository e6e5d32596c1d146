//! Nodes that undo what others did: whether there are such, and whether they can.

use std::collections::HashMap;

use bowline_model::workflow::{NodeId, WorkflowSpec};

use super::graph::Graph;
use super::mistakes::{Mistakes, unknown};
use super::nodes::Nodes;
use crate::node::Shape;
use crate::program::NodeIndex;

/// By node: the one that undoes what it did.
pub(super) fn find(
    spec: &WorkflowSpec,
    by_id: &HashMap<NodeId, NodeIndex>,
    built: &Nodes,
    graph: &Graph,
    on_error: Option<NodeIndex>,
    mistakes: &mut Mistakes,
) -> Vec<Option<NodeIndex>> {
    let is_plain = |node: NodeIndex| built.get(node).is_none_or(|built| built.shape() == Shape::Plain);
    let mut undos = vec![None; spec.nodes.len()];
    for (index, node) in spec.nodes.iter().enumerate() {
        let Some(id) = &node.undo else { continue };
        let found = by_id.get(id).copied();
        let what = match found {
            None if mistakes.is_full() => return undos,
            None => Some(unknown("there is no node", id.as_str(), spec.nodes.iter().map(|node| node.id.as_str()))),
            Some(undo) if undo == index => Some("a node cannot undo itself".to_owned()),
            Some(_) if !is_plain(index) => Some(format!("a `{}` does nothing that could be undone", node.node_type)),
            Some(undo) if !is_plain(undo) => Some(format!("a `{}` cannot undo anything", spec.nodes[undo].node_type)),
            Some(undo) if on_error == Some(undo) => {
                Some("`on_error` names this node, too; what takes over from others cannot undo one".to_owned())
            }
            Some(undo) if spec.nodes[undo].undo.is_some() => {
                Some("that node names another one that undoes it; what was undone stays so".to_owned())
            }
            Some(undo) if graph.into(undo).next().is_some() || graph.out(undo).next().is_some() => Some(
                "edges lead to that node or away from it; what undoes something is come to in no other way".to_owned(),
            ),
            Some(_) => None,
        };
        undos[index] = found.filter(|undo| *undo != index);
        if let Some(what) = what {
            mistakes.add(format!("nodes[{index}].undo"), what);
        }
    }
    undos
}

/// What is undone, and what undoes it.
pub(super) fn pairs(undos: &[Option<NodeIndex>]) -> impl Iterator<Item = (NodeIndex, NodeIndex)> {
    undos.iter().enumerate().filter_map(|(node, undo)| Some((node, (*undo)?)))
}
