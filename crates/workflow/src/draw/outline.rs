//! A workflow as lines of text: its nodes layer by layer, each with where it leads.

use bowline_model::workflow::{NodeId, WorkflowSpec};

use super::layout::{back_edges, layers};
use super::{Picture, Statuses};

/// One node of an outline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlineLine {
    /// How many nodes lie before it at least, on the longest way to it.
    pub layer: usize,
    pub node: NodeId,
    pub node_type: String,
    pub ways: Vec<OutlineWay>,
    /// It takes over when something fails.
    pub is_handler: bool,
}

/// Where a node leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlineWay {
    /// What it is taken on; nothing for success.
    pub on: Option<String>,
    pub target: NodeId,
    /// It leads back up.
    pub is_back: bool,
}

/// The nodes of a workflow, layer by layer, in the order of the definition within each.
pub fn outline(spec: &WorkflowSpec) -> Vec<OutlineLine> {
    let picture = Picture::of(spec, &Statuses::new());
    let back = back_edges(&picture);
    let layer_of = layers(&picture, &back);
    let mut lines: Vec<OutlineLine> = spec
        .nodes
        .iter()
        .zip(&layer_of)
        .enumerate()
        .map(|(index, (node, layer))| OutlineLine {
            layer: *layer,
            node: node.id.clone(),
            node_type: node.node_type.clone(),
            ways: picture
                .edges
                .iter()
                .zip(&back)
                .filter(|(edge, _)| edge.source == index)
                .map(|(edge, is_back)| OutlineWay {
                    on: edge.on.map(str::to_owned),
                    target: spec.nodes[edge.target].id.clone(),
                    is_back: *is_back,
                })
                .collect(),
            is_handler: picture.handler == Some(index),
        })
        .collect();
    lines.sort_by_key(|line| line.layer);
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_loop_is_listed_from_its_beginning() {
        let spec: WorkflowSpec = serde_json::from_value(json!({
            "nodes": [{"id": "end", "type": "end"}, {"id": "check", "type": "condition"}, {"id": "start", "type": "start"},
                {"id": "add", "type": "math"}, {"id": "sorry", "type": "log"}],
            "edges": [{"source": "start", "target": "add"}, {"source": "add", "target": "check"},
                {"source": "check", "target": "add", "on": "true"}, {"source": "check", "target": "end", "on": "false"}],
            "on_error": "sorry",
        }))
        .expect("a workflow");
        let lines: Vec<String> = outline(&spec)
            .into_iter()
            .map(|line| {
                let ways = line.ways.iter().map(|way| {
                    let arrow = if way.is_back { "^" } else { ">" };
                    format!("{arrow}{}{}", way.target, way.on.as_ref().map(|on| format!("({on})")).unwrap_or_default())
                });
                let ways: Vec<String> = ways.collect();
                format!("{} {}{} {}", line.layer, line.node, if line.is_handler { "!" } else { "" }, ways.join(" "))
            })
            .collect();
        assert_eq!(lines, ["0 start >add", "0 sorry! ", "1 add >check", "2 check ^add(true) >end(false)", "3 end "]);
    }
}
