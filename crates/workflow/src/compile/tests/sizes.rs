//! The largest definitions there may be, and larger ones.

use serde_json::{Value, json};

use super::{compile, lines};
use crate::compile::{EDGES_MAX, MISTAKES_MAX, NODES_MAX};

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
