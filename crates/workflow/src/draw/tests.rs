//! Drawings of what people draw, and of what nobody would.

use bowline_model::workflow::WorkflowSpec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::layout::{Path, Size, arrange};
use super::{NodeStatus, Picture, Statuses, mermaid, svg};

fn spec(nodes: &[(&str, &str)], edges: &[(&str, &str, &str)]) -> WorkflowSpec {
    let nodes: Vec<Value> = nodes.iter().map(|(id, node_type)| json!({"id": id, "type": node_type})).collect();
    let edges: Vec<Value> =
        edges.iter().map(|(source, target, on)| json!({"source": source, "target": target, "on": on})).collect();
    serde_json::from_value(json!({"nodes": nodes, "edges": edges})).unwrap()
}

fn polling() -> WorkflowSpec {
    spec(
        &[
            ("start", "start"),
            ("ask", "http_request"),
            ("ready", "condition"),
            ("nap", "sleep"),
            ("end", "end"),
            ("sorry", "log"),
        ],
        &[
            ("start", "ask", "success"),
            ("ask", "ready", "success"),
            ("ready", "end", "true"),
            ("ready", "nap", "false"),
            ("nap", "ask", "success"),
            ("ask", "sorry", "failure"),
        ],
    )
}

#[test]
fn mermaid_of_a_loop_in_the_middle_of_a_run() {
    let mut spec = polling();
    spec.on_error = Some("sorry".into());
    let statuses = Statuses::from([
        ("start".into(), NodeStatus::Done),
        ("ask".into(), NodeStatus::Done),
        ("nap".into(), NodeStatus::Waiting),
        ("nobody".into(), NodeStatus::Failed),
    ]);
    insta::assert_snapshot!(mermaid(&spec, &statuses));
}

#[test]
fn svg_of_a_loop() {
    insta::assert_snapshot!(svg(&polling(), &Statuses::new()));
}

fn order() -> WorkflowSpec {
    let spec = json!({
        "start": "init",
        "states": {
            "init": {"transitions": [
                {"when": "variables.total > 100 and not variables.customer.known", "to": "ask"},
                {"when": "variables.total == 0", "to": "done"},
                {"to": "charge"},
            ]},
            "ask": {"actions": [{"await_approval": {"title": "?",
                "transitions": {"approved": "charge", "rejected": "refused"}}}]},
            "charge": {"actions": [{"dispatch_task": {"type": "x", "transitions": {"success": "done", "busy": "rest"}}}],
                "on_failure": "refused"},
            "rest": {"actions": [{"sleep": {"seconds": 1, "then": "charge"}}]},
            "refused": {"failed": true},
            "done": {"final": true},
        },
    });
    crate::blueprint::drawing::of(&serde_json::from_value(spec).unwrap())
}

#[test]
fn mermaid_of_a_state_machine() {
    insta::assert_snapshot!(mermaid(&order(), &Statuses::new()));
}

#[test]
fn svg_of_a_state_machine() {
    insta::assert_snapshot!(svg(&order(), &Statuses::new()));
}

#[test]
fn what_people_call_a_node_is_text_and_nothing_else() {
    let mut spec = polling();
    spec.nodes[1].label = Some("\"]; click n0 \u{0}<script>alert(1)</script>&amp;".to_owned());
    spec.edges[2].on = "<b>\"|".to_owned();
    let drawn = svg(&spec, &Statuses::new());
    assert!(!drawn.contains("<script>") && !drawn.contains("<b>") && drawn.contains("&lt;script&gt;"), "{drawn}");
    let text = mermaid(&spec, &Statuses::new());
    assert!(!text.contains("<script>") && !text.contains("\"];") && !text.contains("<b>"), "{text}");
}

#[test]
fn nothing_can_be_drawn_too() {
    assert!(svg(&spec(&[], &[]), &Statuses::new()).contains("</svg>"));
    assert_eq!(mermaid(&spec(&[], &[]), &Statuses::new()), "flowchart TD\n");
}

#[test]
fn an_edge_back_goes_along_the_side_and_everything_else_goes_down() {
    let spec = polling();
    let statuses = Statuses::new();
    let picture = Picture::of(&spec, &statuses);
    let sizes = vec![Size { width: 100.0, height: 40.0 }; picture.nodes.len()];
    let layout = arrange(&picture, &sizes);
    for (edge, way) in picture.edges.iter().zip(&layout.ways) {
        let (from, to) = (layout.middles[edge.source].1, layout.middles[edge.target].1);
        match way {
            Path::Back(_) => assert_eq!((edge.source, edge.target), (3, 1)),
            Path::Down(_) => assert!(from < to),
        }
    }
}

proptest! {
    /// Whatever the graph, nodes do not lie on each other and nothing stands outside.
    #[test]
    fn nodes_have_room(
        size in 1usize..30,
        edges in prop::collection::vec((0usize..30, 0usize..30), 0..60),
        widths in prop::collection::vec(20.0f64..200.0, 30),
    ) {
        let nodes: Vec<_> = (0..size).map(|n| (format!("n{n}"), "log")).collect();
        let nodes: Vec<_> = nodes.iter().map(|(id, node_type)| (id.as_str(), *node_type)).collect();
        let ends: Vec<_> = edges.iter().map(|(a, b)| (format!("n{a}"), format!("n{b}"))).collect();
        let ends: Vec<_> = ends.iter().map(|(a, b)| (a.as_str(), b.as_str(), "success")).collect();
        let spec = spec(&nodes, &ends);
        let statuses = Statuses::new();
        let picture = Picture::of(&spec, &statuses);
        let sizes: Vec<_> = widths[..size].iter().map(|width| Size { width: *width, height: 40.0 }).collect();
        let layout = arrange(&picture, &sizes);
        for a in 0..size {
            let (x, y) = layout.middles[a];
            prop_assert!(x - sizes[a].width / 2.0 >= 0.0 && x + sizes[a].width / 2.0 <= layout.width);
            prop_assert!(y - 20.0 >= 0.0 && y + 20.0 <= layout.height);
            for b in 0..a {
                let (bx, by) = layout.middles[b];
                let apart = (x - bx).abs() >= (sizes[a].width + sizes[b].width) / 2.0 || (y - by).abs() >= 40.0;
                prop_assert!(apart, "{a} and {b}");
            }
        }
    }
}

#[test]
fn two_hundred_nodes_and_ten_thousand() {
    for count in [200, 10_000] {
        let ids: Vec<_> = (0..count).map(|n| format!("n{n}")).collect();
        let nodes: Vec<_> = ids.iter().map(|id| (id.as_str(), "log")).collect();
        let far = |n: usize| if count > 1_000 { n / 2 } else { n.saturating_sub(7) };
        let edges: Vec<_> = (1..count)
            .flat_map(|n| {
                [(ids[n - 1].as_str(), ids[n].as_str(), "success"), (ids[far(n)].as_str(), ids[n].as_str(), "failure")]
            })
            .collect();
        let drawn = svg(&spec(&nodes, &edges), &Statuses::new());
        assert_eq!(drawn.matches("<g class=").count(), count);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 0, ..ProptestConfig::default() })]

    /// A long row with edges across it has a bend in every layer that an edge passes: more of them than anybody can look at are
    /// not laid out.
    #[test]
    fn no_drawing_has_more_bends_than_it_may(
        length in 2..700_usize,
        across in prop::collection::vec((0..700_usize, 0..700_usize), 0..200),
    ) {
        let names: Vec<String> = (0..length).map(|n| format!("n{n}")).collect();
        let nodes: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "log")).collect();
        let row = (1..length).map(|n| (n - 1, n));
        let edges = row.chain(across.into_iter().map(|(a, b)| (a % length, b % length)));
        let edges: Vec<(&str, &str, &str)> = edges.map(|(a, b)| (names[a].as_str(), names[b].as_str(), "success")).collect();
        let spec = spec(&nodes, &edges);
        let statuses = Statuses::default();
        let picture = Picture::of(&spec, &statuses);
        let sizes: Vec<Size> = picture.nodes.iter().map(|_| Size { width: 50.0, height: 20.0 }).collect();
        let layout = arrange(&picture, &sizes);
        let bends = layout.ways.iter().map(|way| if let Path::Down(bends) = way { bends.len() } else { 0 });
        let bends: usize = bends.sum();
        prop_assert!(bends <= 20_000, "{bends} bends");
    }
}
