//! The largest definitions there may be, and larger ones.

use bowline_model::workflow::{EdgeSpec, NodePolicy, NodeSpec, WorkflowSpec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{compile, lines};
use crate::compile::{EDGES_MAX, MISTAKES_MAX, NODES_MAX, STEPS_MAX};
use crate::expression::limits::PATTERNS_MAX;
use crate::program::Program;

fn chain(length: usize) -> Value {
    let node = |index: usize| match index {
        0 => json!({"id": "n0", "type": "start"}),
        index => {
            json!({"id": format!("n{index}"), "type": "transform", "config": {"value": format!("{{{{ steps.n{}.output }}}}", index / 2)}})
        }
    };
    let nodes: Vec<_> = (0..length).map(node).collect();
    let edges: Vec<_> =
        (1..length).map(|n| json!({"source": format!("n{}", n - 1), "target": format!("n{n}")})).collect();
    json!({"nodes": nodes, "edges": edges})
}

#[test]
fn b082_ten_thousand_nodes_in_a_row_and_not_one_more() {
    assert!(compile(chain(NODES_MAX)).is_ok());
    assert_eq!(lines(chain(NODES_MAX + 1)), "nodes: a workflow has at most 10000 nodes, this one has 10001\n");
}

#[test]
fn too_many_edges() {
    let edges = vec![json!({"source": "a", "target": "b"}); EDGES_MAX + 1];
    let value = json!({"nodes": [{"id": "a", "type": "start"}], "edges": edges});
    assert_eq!(lines(value), "edges: a workflow has at most 50000 edges, this one has 50001\n");
}

#[test]
fn a_hundred_mistakes_are_enough() {
    let nodes = vec![json!({"id": "a".repeat(200), "type": "b".repeat(40), "config": {"x": 1}}); NODES_MAX];
    let mistakes = compile(json!({"nodes": nodes, "edges": []})).unwrap_err();
    assert_eq!(mistakes.len(), MISTAKES_MAX);
}

#[test]
fn the_last_of_a_long_row_cannot_be_used_by_the_first() {
    let mut value = chain(5_000);
    value["nodes"][1]["config"]["value"] = json!("{{ steps.n4999.output }}");
    let expected =
        "nodes[1].config.value: line 1, column 4: `n4999` cannot have run before: no path leads from it to this node\n";
    assert_eq!(lines(value), expected);
}

/// So many conditions, each with a pattern of its own.
fn with_patterns(count: usize, pattern: impl Fn(usize) -> String) -> Value {
    let node = |n: usize| match n {
        0 => json!({"id": "n0", "type": "start"}),
        n => json!({"id": format!("n{n}"), "type": "transform", "config": {
            "value": format!("{{{{ 'a' | matches('{}') }}}}", pattern(n)),
        }}),
    };
    let nodes: Vec<_> = (0..=count).map(node).collect();
    let edges: Vec<_> =
        (1..=count).map(|n| json!({"source": format!("n{}", n - 1), "target": format!("n{n}")})).collect();
    json!({"nodes": nodes, "edges": edges})
}

#[test]
fn thousands_of_large_patterns_are_refused_and_thousands_of_the_same_are_not() {
    let what = |errors: Vec<crate::program::DefinitionMistake>| {
        errors.first().map(|error| error.what.clone()).unwrap_or_default()
    };
    let large = compile(with_patterns(5_000, |n| format!("[a-z{n}]{{900}}"))).unwrap_err();
    assert_eq!(large.len(), MISTAKES_MAX);
    assert!(what(large).contains("the patterns of this definition are too large"));
    let many = compile(with_patterns(PATTERNS_MAX + 1, |n| format!("a{n}"))).unwrap_err();
    assert_eq!(many.len(), 1);
    assert!(what(many).contains("more than 1000 different patterns"));
    let same = compile(with_patterns(5_000, |_| "^[a-z]{100}$".to_owned())).expect("one pattern");
    assert!((1..1 << 20).contains(&same.size.pattern_bytes), "{} bytes", same.size.pattern_bytes);
    assert!(!same.is_light());
    assert!(compile(chain(10)).expect("a chain").is_light());
}

/// Around a bound as often as far below it.
fn near(bound: usize) -> impl Strategy<Value = usize> {
    prop_oneof![1..200_usize, bound - 2..bound + 3, bound * 2..bound * 2 + 2]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 0, ..ProptestConfig::default() })]

    /// Whatever somebody writes: what compiles is within every bound, and what does not names no more errors than it may.
    #[test]
    fn no_graph_compiles_beyond_its_bounds(
        nodes in near(NODES_MAX),
        edges in near(EDGES_MAX),
        steps in prop_oneof![0..2_u32, STEPS_MAX - 1..STEPS_MAX + 2],
        sound in any::<bool>(),
    ) {
        let id = |n: usize| format!("n{n}").as_str().into();
        let node = |n: usize| NodeSpec {
            id: id(n),
            node_type: if n == 0 { "start" } else if sound { "log" } else { "nothing" }.to_owned(),
            config: if n == 0 { Map::new() } else { Map::from_iter([("message".to_owned(), json!("x"))]) },
            policy: NodePolicy::default(),
            undo: None,
            label: None,
            position: None,
        };
        let edge = |n: usize| EdgeSpec { source: id(n % nodes), target: id(n % nodes + 1), on: "success".to_owned() };
        let edges = if sound { nodes - 1 } else { edges };
        let spec = WorkflowSpec {
            description: String::new(),
            nodes: (0..nodes).map(node).collect(),
            edges: (0..edges).map(edge).collect(),
            variables: Map::new(),
            on_error: None,
            max_steps: steps,
        };
        let within = nodes <= NODES_MAX && edges <= EDGES_MAX && (1..=STEPS_MAX).contains(&steps);
        match Program::compile(&spec) {
            Ok(program) => {
                prop_assert!(within, "{nodes} nodes, {edges} edges, {steps} steps");
                prop_assert_eq!(program.nodes.len(), nodes);
            }
            Err(mistakes) => {
                prop_assert!(!(sound && within), "{mistakes:?}");
                prop_assert!((1..=MISTAKES_MAX).contains(&mistakes.len()), "{} errors", mistakes.len());
            }
        }
    }
}
