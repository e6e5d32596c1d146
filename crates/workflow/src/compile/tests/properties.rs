//! Graphs by chance: nothing panics, and what compiles keeps what was promised.

use std::collections::HashSet;

use bowline_model::workflow::{EdgeSpec, NodeId, NodePolicy, NodeSpec, WorkflowSpec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::compile::MISTAKES_MAX;
use crate::compile::graph::{Graph, Groups, LooseEnds};
use crate::node::Shape;
use crate::program::{Program, Way};

fn config(node_type: &str, step: usize) -> Map<String, Value> {
    let value = match node_type {
        "log" => json!({"message": format!("{{{{ steps.n{step}.output | default(1) }}}}")}),
        "condition" => json!({"expression": "variables.x | default(true)"}),
        "switch" => json!({"value": 1, "cases": [{"name": "one", "equals": 1}, {"name": "two", "equals": 2}]}),
        _ => json!({}),
    };
    value.as_object().cloned().unwrap_or_default()
}

const TYPES: [&str; 6] = ["log", "condition", "switch", "parallel", "join", "end"];
const ONS: [&str; 9] = ["success", "success", "failure", "always", "true", "false", "one", "two", "nothing"];

prop_compose! {
    fn workflow()(size in 1usize..12)(
        types in prop::collection::vec(prop::sample::select(&TYPES[..]), size),
        steps in prop::collection::vec(0..size + 2, size),
        edges in prop::collection::vec((0..size + 1, 0..size + 2, prop::sample::select(&ONS[..])), 0..24),
        on_error in prop::option::of(0..size + 2),
        second_start in prop::bool::weighted(0.1),
    ) -> WorkflowSpec {
        let id = |number: usize| NodeId::from(format!("n{number}").as_str());
        let node = |number: usize, node_type: &str, step: usize| NodeSpec {
            id: id(number),
            node_type: node_type.to_owned(),
            config: config(node_type, step),
            policy: NodePolicy::default(),
            undo: None,
            label: None,
            position: None,
        };
        let mut nodes = vec![node(0, "start", 0)];
        nodes.extend(types.iter().zip(&steps).enumerate().map(|(n, (node_type, step))| node(n + 1, node_type, *step)));
        if second_start {
            nodes.push(node(nodes.len(), "start", 0));
        }
        WorkflowSpec {
            description: String::new(),
            nodes,
            edges: edges.iter().map(|(a, b, on)| EdgeSpec { source: id(*a), target: id(*b), on: (*on).to_owned() }).collect(),
            variables: Map::new(),
            on_error: on_error.map(id),
            max_steps: 100,
        }
    }
}

/// Who can be reached from whom, in the plain way.
fn reach(nodes: usize, edges: &[(usize, usize)]) -> Vec<HashSet<usize>> {
    (0..nodes)
        .map(|from| {
            let (mut seen, mut ahead) = (HashSet::new(), vec![from]);
            while let Some(node) = ahead.pop() {
                for (_, target) in edges.iter().filter(|(source, _)| *source == node) {
                    if seen.insert(*target) {
                        ahead.push(*target);
                    }
                }
            }
            seen
        })
        .collect()
}

proptest! {
    #[test]
    fn a_graph_compiles_or_its_mistakes_have_places(spec in workflow()) {
        match Program::compile(&spec) {
            Err(mistakes) => {
                prop_assert!(!mistakes.is_empty() && mistakes.len() <= MISTAKES_MAX);
                prop_assert!(mistakes.iter().all(|mistake| !mistake.path.is_empty() && !mistake.what.is_empty()));
            }
            Ok(program) => {
                let edges: Vec<_> =
                    program.nodes.iter().enumerate().flat_map(|(n, node)| node.out.iter().map(move |(_, to)| (n, *to))).collect();
                let reach = reach(program.nodes.len(), &edges);
                for (index, node) in program.nodes.iter().enumerate() {
                    prop_assert_eq!(edges.iter().filter(|(_, to)| *to == index).count(), node.into as usize);
                    // Everything is reached.
                    let reached = index == program.start || reach[program.start].contains(&index);
                    let handled = program.on_error.is_some_and(|on| index == on || reach[on].contains(&index));
                    prop_assert!(reached || handled);
                    // It is clear where to go.
                    if node.node.shape() != Shape::Fork {
                        let ways: Vec<_> = node.out.iter().map(|(way, _)| way).collect();
                        prop_assert!((1..ways.len()).all(|n| !ways[..n].contains(&ways[n])));
                        prop_assert!(!ways.contains(&&Way::Always) || ways.len() == 1);
                    }
                    // What is named may have run.
                    for step in node.node.references().into_iter().filter_map(|reference| reference.step()) {
                        let step = program.by_id[&NodeId::from(step)];
                        let handled = program.on_error.is_some_and(|on| index == on || reach[on].contains(&index));
                        prop_assert!(reach[step].contains(&index) || handled);
                    }
                }
            }
        }
    }

    #[test]
    fn groups_are_who_leads_to_one_another(edges in prop::collection::vec((0usize..10, 0usize..10), 0..30)) {
        let groups = Groups::new(10, edges.iter().copied());
        let reach = reach(10, &edges);
        for a in 0..10 {
            for b in 0..10 {
                let together = a == b || (reach[a].contains(&b) && reach[b].contains(&a));
                prop_assert_eq!(groups.of[a] == groups.of[b], together);
                // Whoever is led to is listed first.
                prop_assert!(!reach[a].contains(&b) || groups.of[b] <= groups.of[a]);
            }
        }
        let graph = Graph::new(10, edges.iter().map(|(a, b)| (0, *a, Way::Success, *b)).collect(), LooseEnds::default());
        let reached = graph.reached([3]);
        prop_assert!((0..10).all(|node| reached[node] == (node == 3 || reach[3].contains(&node))));
    }
}
