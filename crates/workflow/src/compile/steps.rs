//! Steps that expressions name: they must exist, and must have had a chance to run.
//!
//! Which steps may have run before a node is what leads to it. The answer for all nodes at once is a set per group of nodes
//! that lead to one another, handed down from group to group; only steps that somebody names are in the sets.

use std::collections::HashMap;

use bowline_model::workflow::{NodeId, WorkflowSpec};

use super::graph::{Graph, Groups};
use super::mistakes::{Mistakes, path_under, unknown};
use super::nodes::Nodes;
use crate::node::Node;
use crate::program::NodeIndex;

/// Of nodes that are not `reached`, only steps that do not exist are reported.
pub(super) fn check(
    spec: &WorkflowSpec,
    by_id: &HashMap<NodeId, NodeIndex>,
    built: &Nodes,
    graph: &Graph,
    (undos, reached): (&[Option<NodeIndex>], &[bool]),
    (start, on_error): (NodeIndex, Option<NodeIndex>),
    mistakes: &mut Mistakes,
) {
    let before = Before::new(by_id, built, graph, undos, (start, on_error));
    for index in 0..built.len() {
        for reference in built.get(index).map(Node::references).unwrap_or_default() {
            if mistakes.is_full() {
                return;
            }
            let Some(name) = reference.step() else { continue };
            let place = &reference.place;
            let what = match by_id.get(&NodeId::from(name)) {
                None => unknown("there is no step", name, spec.nodes.iter().map(|node| node.id.as_str())),
                Some(step) if before.has(*step, index) => continue,
                Some(step) if *step == index => "a step cannot use its own output, unless it is in a loop".to_owned(),
                // That no path leads to one of them has been reported, or an edge has an end that is not there.
                Some(step) if !reached[*step] || !reached[index] => continue,
                Some(_) => format!("`{name}` cannot have run before: no path leads from it to this node"),
            };
            let path = path_under(&format!("nodes[{index}].config"), &place.pointer);
            mistakes.add(path, format!("line {}, column {}: {what}", place.line, place.column));
        }
    }
}

/// Which of the named steps may have run before which node.
struct Before {
    groups: Groups,
    /// The number of each named step.
    numbers: HashMap<NodeIndex, usize>,
    /// By group: the named steps that may have run before its nodes, one bit each.
    sets: Vec<Vec<u64>>,
}

impl Before {
    fn new(
        by_id: &HashMap<NodeId, NodeIndex>,
        built: &Nodes,
        graph: &Graph,
        undos: &[Option<NodeIndex>],
        (start, on_error): (NodeIndex, Option<NodeIndex>),
    ) -> Self {
        let mut numbers = HashMap::new();
        for index in 0..built.len() {
            for reference in built.get(index).map(Node::references).unwrap_or_default() {
                if let Some(step) = reference.step().and_then(|name| by_id.get(&NodeId::from(name))) {
                    let next = numbers.len();
                    numbers.entry(*step).or_insert(next);
                }
            }
        }
        // Every step may fail, and then the handler comes next.
        let mut failing = Vec::new();
        if let Some(handler) = on_error {
            let reached = graph.reached([start]);
            failing = (0..built.len()).filter(|node| reached[*node]).map(|node| (node, handler)).collect();
        }
        let edges: Vec<_> = graph.pairs().chain(failing).chain(super::undos::pairs(undos)).collect();
        let groups = Groups::new(built.len(), edges.iter().copied());
        let mut next: Vec<Vec<usize>> = vec![Vec::new(); groups.members.len()];
        let mut is_cycle: Vec<bool> = groups.members.iter().map(|members| members.len() > 1).collect();
        for (source, target) in edges {
            let (from, to) = (groups.of[source], groups.of[target]);
            if from == to {
                is_cycle[from] = true;
            } else {
                next[from].push(to);
            }
        }
        let words = numbers.len().div_ceil(64);
        let mut sets = vec![vec![0_u64; words]; groups.members.len()];
        // A group is listed after all it leads to, so from the last to the first everybody has heard from all before them.
        for group in (0..groups.members.len()).rev() {
            let mut passed = sets[group].clone();
            for step in groups.members[group].iter().filter_map(|node| numbers.get(node)) {
                passed[step / 64] |= 1 << (step % 64);
            }
            if is_cycle[group] {
                sets[group].clone_from(&passed);
            }
            for later in &next[group] {
                for (word, passed) in sets[*later].iter_mut().zip(&passed) {
                    *word |= passed;
                }
            }
        }
        Self { groups, numbers, sets }
    }

    fn has(&self, step: NodeIndex, node: NodeIndex) -> bool {
        let Some(number) = self.numbers.get(&step) else { return false };
        self.sets[self.groups.of[node]].get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}
