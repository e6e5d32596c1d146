//! Edges: whether both ends exist, and whether it is clear which one is taken.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bowline_model::workflow::{NodeId, WorkflowSpec};

use super::graph::{Graph, LooseEnds};
use super::mistakes::{Mistakes, shown, unknown, unknown_or};
use super::nodes::Nodes;
use crate::node::{Gather, Node, Ports, Shape};
use crate::program::{NodeIndex, Way};

/// The edges that lead from a node to a node, checked.
pub(super) fn connect(
    spec: &WorkflowSpec,
    by_id: &HashMap<NodeId, NodeIndex>,
    built: &Nodes,
    mistakes: &mut Mistakes,
) -> Graph {
    let mut edges = Vec::with_capacity(spec.edges.len());
    let mut taken: HashMap<(NodeIndex, &str), usize> = HashMap::new();
    let mut targets = HashSet::new();
    let mut loose = LooseEnds::default();
    let mut always: HashMap<NodeIndex, usize> = HashMap::new();
    let mut others: HashMap<NodeIndex, usize> = HashMap::new();
    let mut ways_out = WaysOut::default();
    for (number, edge) in spec.edges.iter().enumerate() {
        let mut end = |field: &str, id: &NodeId| {
            let found = by_id.get(id).copied();
            if found.is_none() && !mistakes.is_full() {
                let ids = spec.nodes.iter().map(|node| node.id.as_str());
                mistakes.add(format!("edges[{number}].{field}"), unknown("there is no node", id.as_str(), ids));
            }
            found
        };
        let (source, target) = (end("source", &edge.source), end("target", &edge.target));
        let (source, target) = match (source, target) {
            (Some(source), Some(target)) => (source, target),
            (None, Some(target)) => {
                loose.without_source.insert(target);
                continue;
            }
            (Some(source), None) => {
                loose.without_target.insert(source);
                continue;
            }
            (None, None) => {
                loose.without_both = true;
                continue;
            }
        };
        let on = edge.on.as_str();
        let shape = built.get(source).map_or(Shape::Plain, Node::shape);
        if let Some(node) = built.get(source).filter(|node| !ways_out.has(source, *node, on)) {
            if !mistakes.is_full()
                && let Err(what) = check_on(on, node, &spec.nodes[source].node_type)
            {
                mistakes.add(format!("edges[{number}].on"), what);
            }
            if shape == Shape::End {
                continue;
            }
        } else if shape == Shape::Fork {
            if !targets.insert((source, target)) {
                mistakes.add(format!("edges[{number}]"), "there is another edge between these two");
            }
        } else if let Some(first) = taken.insert((source, on), number) {
            let what = format!(
                "edges[{first}] leaves `{}` on `{}`, too; only a `parallel` goes several ways at once",
                shown(spec.nodes[source].id.as_str()),
                shown(on)
            );
            mistakes.add(format!("edges[{number}]"), what);
        }
        // Even a wrong edge leads somewhere: without it, all that comes behind it would be told of as well.
        if on == "always" { &mut always } else { &mut others }.entry(source).or_insert(number);
        edges.push((number, source, way(on), target));
    }
    let mut beside: Vec<_> = always.iter().filter_map(|(node, edge)| Some((*edge, *others.get(node)?))).collect();
    beside.sort_unstable();
    for (edge, other) in beside {
        let what = format!("`always` is taken whatever happens, so edges[{other}] cannot leave the same node");
        mistakes.add(format!("edges[{edge}].on"), what);
    }
    Graph::new(built.len(), edges, loose)
}

fn way(on: &str) -> Way {
    match on {
        "success" => Way::Success,
        "failure" => Way::Failure,
        "always" => Way::Always,
        port => Way::Port(port.into()),
    }
}

/// What edges of each node may be taken on. Worked out once for each node: it may have a thousand names, and tens of thousands of
/// edges.
#[derive(Debug, Default)]
struct WaysOut(HashMap<NodeIndex, HashSet<Arc<str>>>);

impl WaysOut {
    fn has(&mut self, index: NodeIndex, node: &dyn Node, on: &str) -> bool {
        match node.shape() {
            Shape::End => return false,
            Shape::Fork => return on == "success",
            Shape::Start | Shape::Join(_) | Shape::Plain => {}
        }
        if matches!(on, "failure" | "always") {
            return true;
        }
        let names = self.0.entry(index).or_insert_with(|| match node.ports() {
            Ports::None => HashSet::new(),
            Ports::Success => HashSet::from([Arc::from("success")]),
            Ports::Named(names) => names.into_iter().collect(),
        });
        names.contains(on)
    }
}

/// Whether an edge that is taken on this may leave such a node, and why not.
fn check_on(on: &str, node: &dyn Node, node_type: &str) -> Result<(), String> {
    if node.shape() == Shape::End {
        return Err(format!("the run is over at a node of type `{node_type}`; no edge leaves it"));
    }
    if node.shape() == Shape::Fork && on != "success" {
        return Err(format!("all edges of a `{node_type}` are taken; `on` can be left out"));
    }
    if matches!(on, "failure" | "always") {
        return Ok(());
    }
    match node.ports() {
        Ports::None => Err(format!("no edge leaves a node of type `{node_type}`")),
        Ports::Success if on == "success" => Ok(()),
        Ports::Success => {
            let names = ["success", "failure", "always"];
            Err(unknown_or(&format!("a `{node_type}` has no edge"), on, names, "; it has success, failure and always"))
        }
        Ports::Named(ports) if ports.iter().any(|port| &**port == on) => Ok(()),
        Ports::Named(ports) => {
            let names = ports.iter().map(|port| &**port);
            let list = names.clone().map(shown).collect::<Vec<_>>().join(", ");
            if on == "success" {
                return Err(format!("say when it is taken: a `{node_type}` has no `success`, it has {list}"));
            }
            let or = format!("; it has {list}, failure and always");
            Err(unknown_or(&format!("a `{node_type}` has no edge"), on, names, &or))
        }
    }
}

/// Whether what parts can part, and what meets can meet.
pub(super) fn check_joins_and_forks(built: &Nodes, graph: &Graph, mistakes: &mut Mistakes) {
    for index in 0..built.len() {
        let Some(node) = built.get(index) else { continue };
        match node.shape() {
            Shape::Fork if graph.out(index).next().is_none() && !graph.leads_nowhere(index) => {
                mistakes.add(format!("nodes[{index}]"), "no edge leaves it, so there is nothing to do at once");
            }
            Shape::Join(gather) => {
                let into = graph.into(index).count();
                // Any edge to a node that is not there may have been meant to lead here.
                let meant = graph.has_loose_target() || graph.without_source().contains(&index);
                if meant {
                    continue;
                }
                if into < 2 {
                    let lead = if into == 1 { "only one edge leads" } else { "no edges lead" };
                    mistakes
                        .add(format!("nodes[{index}]"), format!("paths meet here, but {lead} here; a join needs two"));
                } else if let Gather::AtLeast(least) = gather
                    && least as usize > into
                {
                    let what = format!("it waits for {least} paths, but only {into} edges lead here");
                    mistakes.add(format!("nodes[{index}].config.mode.at_least"), what);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bowline_model::RunError;
    use bowline_model::workflow::{EdgeSpec, NodeSpec};
    use proptest::prelude::*;
    use serde_json::Map;

    use super::*;
    use crate::compile::MISTAKES_MAX;
    use crate::node::{Next, Visit};

    /// Counts how often its names are read.
    #[derive(Debug)]
    struct Counted(Arc<AtomicUsize>, usize);

    impl Node for Counted {
        fn enter(&self, _: Visit<'_>) -> Result<Next, RunError> {
            Err(RunError::new(bowline_model::ErrorClass::Handler, "is never entered"))
        }

        fn ports(&self) -> Ports {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ports::Named((0..self.1).map(|n| format!("p{n}").into()).collect())
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// However many edges leave how many names: they are read once for each node, and for each error that is named.
        #[test]
        fn the_names_of_a_node_are_read_once(
            nodes in 1..6_usize,
            ports in 0..50_usize,
            edges in prop::collection::vec((0..6_usize, 0..6_usize, 0..60_usize), 0..2_000),
        ) {
            let read = Arc::new(AtomicUsize::new(0));
            let id = |n: usize| NodeId::from(format!("n{n}").as_str());
            let node = |n| NodeSpec {
                id: id(n),
                node_type: "counted".to_owned(),
                config: Map::new(),
                policy: bowline_model::workflow::NodePolicy::default(),
                undo: None,
                label: None,
                position: None,
            };
            let edge = |(from, to, on): &(usize, usize, usize)| EdgeSpec { source: id(*from), target: id(*to), on: format!("p{on}") };
            let spec = WorkflowSpec {
                description: String::new(),
                nodes: (0..nodes).map(node).collect(),
                edges: edges.iter().map(edge).collect(),
                variables: Map::new(),
                on_error: None,
                max_steps: 1,
            };
            let by_id = (0..nodes).map(|n| (id(n), n)).collect();
            let built = Nodes::of((0..nodes).map(|_| Some(Box::new(Counted(Arc::clone(&read), ports)) as Box<dyn Node>)).collect());
            let mut mistakes = Mistakes::default();
            let graph = connect(&spec, &by_id, &built, &mut mistakes);
            let mistakes = mistakes.into_list();
            let reads = read.load(Ordering::Relaxed);
            prop_assert!(reads <= nodes + mistakes.len(), "{reads} reads");
            // What is wrong is as it always was: an edge on a name that the node lacks.
            let wrong = |(from, to, on): &&(usize, usize, usize)| *from < nodes && *to < nodes && *on >= ports;
            let named = mistakes.iter().filter(|mistake| mistake.path.ends_with(".on")).count();
            if mistakes.len() < MISTAKES_MAX {
                prop_assert_eq!(named, edges.iter().filter(wrong).count());
            }
            let whole = edges.iter().filter(|(from, to, _)| *from < nodes && *to < nodes).count();
            prop_assert_eq!(graph.pairs().count(), whole);
        }
    }
}
