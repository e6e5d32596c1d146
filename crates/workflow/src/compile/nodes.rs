//! Nodes one by one: what they are called, what they are, and what their configuration says.

use std::collections::HashMap;

use bowline_model::JobPolicy;
use bowline_model::workflow::{NodeId, NodePolicy, WorkflowSpec};

use super::mistakes::{Mistakes, unknown};
use crate::expression::{Patterns, is_name_part, is_name_start};
use crate::node::Node;
use crate::nodes::{Building, find, names};
use crate::program::{NodeIndex, Size};

/// Bytes that the id of a node may have.
const ID_BYTES_MAX: usize = 255;

/// What was made of the nodes, in their order; nothing of those with mistakes.
pub(super) struct Nodes(Vec<Option<Box<dyn Node>>>);

impl Nodes {
    #[cfg(test)]
    pub fn of(nodes: Vec<Option<Box<dyn Node>>>) -> Self {
        Self(nodes)
    }

    pub fn get(&self, index: NodeIndex) -> Option<&dyn Node> {
        self.0.get(index)?.as_deref()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn into_iter(self) -> impl Iterator<Item = Option<Box<dyn Node>>> {
        self.0.into_iter()
    }
}

/// Which node has which id.
pub(super) fn by_id(spec: &WorkflowSpec, mistakes: &mut Mistakes) -> HashMap<NodeId, NodeIndex> {
    let mut by_id = HashMap::with_capacity(spec.nodes.len());
    for (index, node) in spec.nodes.iter().enumerate() {
        let path = || format!("nodes[{index}].id");
        if let Err(what) = check_id(node.id.as_str()) {
            mistakes.add(path(), what);
        }
        let first = *by_id.entry(node.id.clone()).or_insert(index);
        if first != index {
            mistakes
                .add(path(), format!("nodes[{first}] is called `{}`, too", super::mistakes::shown(node.id.as_str())));
        }
    }
    by_id
}

pub(crate) fn check_id(id: &str) -> Result<(), String> {
    if id.is_empty() {
        return Err("a node needs an id".to_owned());
    }
    if id.len() > ID_BYTES_MAX {
        return Err(format!("an id has at most {ID_BYTES_MAX} bytes, this one has {}", id.len()));
    }
    if !id.starts_with(is_name_start) || !id.chars().all(|c| c == '-' || is_name_part(c)) {
        return Err("an id begins with a letter and goes on with letters, digits, _ and -".to_owned());
    }
    Ok(())
}

/// Makes all nodes, and says how much there is to them.
pub(super) fn build(spec: &WorkflowSpec, mistakes: &mut Mistakes) -> (Nodes, Size) {
    let (mut patterns, mut size) = (Patterns::of_definition(), Size::default());
    let mut edges: HashMap<&NodeId, Vec<&str>> = HashMap::new();
    for edge in &spec.edges {
        edges.entry(&edge.source).or_default().push(&edge.on);
    }
    let nodes = spec.nodes.iter().enumerate().map(|(index, node)| {
        check_policy(index, &node.policy, mistakes);
        let Some(entry) = find(&node.node_type) else {
            if !mistakes.is_full() {
                let what = unknown("there is no type of node", &node.node_type, names());
                mistakes.add(format!("nodes[{index}].type"), what);
            }
            return None;
        };
        let base = format!("nodes[{index}].config");
        let edges = edges.get(&node.id).map_or(&[][..], Vec::as_slice);
        let mut building = Building::new(&base, edges, mistakes, &mut patterns);
        let built = entry.build(node.config.clone(), &mut building);
        size.add(building.compiled(), entry.name == "foreach");
        built
    });
    let nodes = Nodes(nodes.collect());
    size.pattern_bytes = patterns.bytes();
    (nodes, size)
}

fn check_policy(index: usize, policy: &NodePolicy, mistakes: &mut Mistakes) {
    if policy.timeout_ms.is_some_and(|millis| !(1..=JobPolicy::TIMEOUT_MAX_MS).contains(&millis)) {
        let what = format!("must be between 1 and {} (seven days)", JobPolicy::TIMEOUT_MAX_MS);
        mistakes.add(format!("nodes[{index}].policy.timeout_ms"), what);
    }
    if let Some(Err(bad)) = policy.retry.as_ref().map(bowline_model::RetryPolicy::check) {
        let what = format!("must be between {} and {}", bad.min, bad.max);
        mistakes.add(format!("nodes[{index}].policy.retry.{}", bad.field), what);
    }
}
