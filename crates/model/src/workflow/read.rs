//! A definition out of JSON: node by node and edge by edge, so that one mistake does not hide the others.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{EdgeSpec, NodeId, NodePolicy, NodeSpec, WorkflowSpec};
use crate::read_all::{missing_field, read_all};
use crate::resource::BadSpec;

/// Elements of a list that are looked at. How many there may be is checked later; this is only not to read for ever.
const ELEMENTS_MAX: usize = 100_000;
/// Errors that are reported at once.
const ERRORS_MAX: usize = 100;

/// A workflow as far as it could be read: something stands in for each part that could not, so that the rest can be checked.
#[derive(Debug)]
pub struct WorkflowDraft {
    pub spec: WorkflowSpec,
    pub errors: Vec<BadSpec>,
    /// Paths whose whole content is a stand-in: what is found there, or below, follows from an error.
    replaced: Vec<String>,
    /// The id or the type of a node is not known.
    unknown_id: bool,
    unknown_type: bool,
}

impl WorkflowDraft {
    /// Whether an error that was found at this path only follows from one of `errors`.
    pub fn follows(&self, path: &str) -> bool {
        let below =
            |outer: &str| path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        let end = || path.ends_with("].source") || path.ends_with("].target") || path.ends_with("].undo");
        self.replaced.iter().any(|replaced| below(replaced))
            || self.errors.iter().any(|error| path.starts_with("edges[") && error.path.starts_with(&format!("{path}.")))
            || (self.unknown_id && (path == "on_error" || end()))
            || (self.unknown_type && path == "nodes")
    }
}

/// Reads a workflow. Unknown fields are named with their path.
pub fn read_workflow(value: Value) -> Result<WorkflowSpec, BadSpec> {
    let draft = read_draft(value)?;
    BadSpec::several(draft.errors)?;
    Ok(draft.spec)
}

/// Reads as much of a workflow as can be read. Only what is no object is no draft.
pub fn read_draft(value: Value) -> Result<WorkflowDraft, BadSpec> {
    let Value::Object(mut fields) = value else {
        return Err(BadSpec::at("spec", "a workflow is an object with `nodes` and `edges`"));
    };
    let empty = WorkflowSpec {
        description: String::new(),
        nodes: Vec::new(),
        edges: Vec::new(),
        variables: Map::new(),
        on_error: None,
        max_steps: WorkflowSpec::MAX_STEPS,
    };
    let mut draft =
        WorkflowDraft { spec: empty, errors: Vec::new(), replaced: Vec::new(), unknown_id: false, unknown_type: false };
    draft.spec.nodes = draft.list("nodes", &mut fields, WorkflowDraft::node);
    draft.spec.edges = draft.list("edges", &mut fields, WorkflowDraft::edge);
    if let Some(rest) = draft.read::<WorkflowSpec>("", Value::Object(fields)) {
        let (nodes, edges) = (std::mem::take(&mut draft.spec.nodes), std::mem::take(&mut draft.spec.edges));
        draft.spec = WorkflowSpec { nodes, edges, ..rest };
    }
    draft.errors.truncate(ERRORS_MAX);
    Ok(draft)
}

impl WorkflowDraft {
    /// Takes the elements of a list out of the fields, and leaves an empty list in its place.
    fn list<T>(
        &mut self,
        name: &str,
        fields: &mut Map<String, Value>,
        read: fn(&mut Self, &str, Value) -> T,
    ) -> Vec<T> {
        let what = match fields.insert(name.to_owned(), Value::Array(Vec::new())) {
            Some(Value::Array(elements)) if elements.len() > ELEMENTS_MAX => format!("{} are too many", elements.len()),
            Some(Value::Array(elements)) => {
                let elements = elements.into_iter().enumerate();
                return elements.map(|(index, element)| read(self, &format!("{name}[{index}]"), element)).collect();
            }
            Some(_) => "must be a list".to_owned(),
            None => "is missing".to_owned(),
        };
        self.wrong(name, what);
        // Nothing can be said about what is not there: no edge to a node, and no node behind an edge.
        self.replaced.extend(["nodes".to_owned(), "edges".to_owned(), "on_error".to_owned()]);
        Vec::new()
    }

    fn wrong(&mut self, path: &str, what: impl Into<String>) {
        self.errors.push(BadSpec::at(path, what));
        self.replaced.push(path.to_owned());
    }

    /// Reads what stands at a path, with everything that is wrong in it.
    fn read<T: DeserializeOwned>(&mut self, path: &str, value: Value) -> Option<T> {
        if self.errors.len() >= ERRORS_MAX {
            // Enough is wrong; what is here is not looked at.
            self.replaced.push(path.to_owned());
            return None;
        }
        let read = read_all(path, value);
        for error in read.errors {
            self.replaced.push(match missing_field(&error.what) {
                Some(field) => format!("{}.{field}", error.path),
                None => error.path.clone(),
            });
            self.errors.push(error);
        }
        read.value
    }

    fn node(&mut self, path: &str, value: Value) -> NodeSpec {
        if !value.is_object() {
            self.wrong(path, "must be an object");
        }
        let text = |field: &str| value.get(field).and_then(Value::as_str);
        let (id, node_type) = (text("id"), text("type"));
        let (unknown_id, unknown_type) = (id.is_none(), node_type.is_none());
        let stand_in = NodeSpec {
            // No edge can name it by accident.
            id: id.map_or_else(|| NodeId::from(format!("?{path}").as_str()), NodeId::from),
            node_type: node_type.unwrap_or_default().to_owned(),
            config: value.get("config").and_then(Value::as_object).cloned().unwrap_or_default(),
            policy: NodePolicy::default(),
            undo: text("undo").map(NodeId::from),
            label: None,
            position: None,
        };
        if value.is_object()
            && let Some(read) = self.read(path, value)
        {
            return read;
        }
        self.unknown_id |= unknown_id;
        self.unknown_type |= unknown_type;
        stand_in
    }

    fn edge(&mut self, path: &str, mut value: Value) -> EdgeSpec {
        if !value.is_object() {
            self.wrong(path, "must be an object");
        }
        // YAML takes `true` without quotes for no text. Which edge is meant is clear all the same.
        let mut on = value.get("on").and_then(Value::as_str).map_or_else(super::success, str::to_owned);
        if let Some(said @ (Value::Bool(_) | Value::Number(_))) = value.get("on") {
            on = said.to_string();
            let mut alone = value.clone();
            if let Some(fields) = alone.as_object_mut() {
                fields.insert("source".to_owned(), "".into());
                fields.insert("target".to_owned(), "".into());
                fields.retain(|name, _| matches!(name.as_str(), "source" | "target" | "on"));
            }
            self.read::<EdgeSpec>(path, alone);
            value["on"] = on.clone().into();
        }
        let end = |field: &str| NodeId::from(value.get(field).and_then(Value::as_str).unwrap_or_default());
        let stand_in = EdgeSpec { source: end("source"), target: end("target"), on };
        if value.is_object()
            && let Some(read) = self.read(path, value)
        {
            return read;
        }
        stand_in
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(value: Value) -> Vec<String> {
        let bad = read_workflow(value).expect_err("it has errors");
        let mut paths: Vec<String> = bad.all().map(|bad| bad.path.clone()).collect();
        paths.sort();
        paths
    }

    #[test]
    fn nodes_edges_and_the_rest_are_all_read() {
        let spec = read_workflow(json!({
            "description": "first",
            "nodes": [{"id": "start", "type": "start"}, {"id": "end", "type": "end"}],
            "edges": [{"source": "start", "target": "end"}],
        }))
        .expect("a good workflow");
        assert_eq!((spec.nodes.len(), spec.edges.len()), (2, 1));
        assert_eq!(serde_json::to_value(&spec).expect("it is JSON")["description"], "first");
    }

    #[test]
    fn what_cannot_be_read_has_a_stand_in_in_its_place() {
        let draft = read_draft(json!({
            "nodes": [{"id": "a", "type": "log", "config": 7}, 7, {"id": "b", "type": "log"}],
            "edges": [{"source": "a", "target": "b", "on": false}, {"source": "b"}],
        }))
        .expect("a draft");
        let ids: Vec<_> = draft.spec.nodes.iter().map(|node| node.id.as_str()).collect();
        assert_eq!(ids, ["a", "?nodes[1]", "b"]);
        let ends = draft.spec.edges.iter().map(|edge| (edge.source.as_str(), edge.on.as_str(), edge.target.as_str()));
        assert_eq!(ends.collect::<Vec<_>>(), [("a", "false", "b"), ("b", "success", "")]);
        for path in [
            "nodes[0].config",
            "nodes[0].config.message",
            "nodes[1]",
            "nodes[1].type",
            "edges[0].on",
            "edges[0]",
            "edges[1].target",
            "edges[1].source",
        ] {
            assert!(draft.follows(path), "{path}");
        }
        for path in ["nodes[0].type", "nodes[0]", "nodes[2].config.message", "nodes[10]", "spec"] {
            assert!(!draft.follows(path), "{path}");
        }
    }

    #[test]
    fn what_names_a_node_follows_from_an_id_that_is_not_known() {
        let draft = |nodes: Value| read_draft(json!({"nodes": nodes, "edges": []})).expect("a draft");
        let named = ["on_error", "edges[0].source", "edges[3].target", "nodes[2].undo"];
        let without_id = draft(json!([{"type": "log"}]));
        let without_type = draft(json!([{"id": "a"}]));
        let whole = draft(json!([{"id": "a", "type": "log"}]));
        for path in named {
            assert!(without_id.follows(path), "{path}");
            assert!(!without_type.follows(path) && !whole.follows(path), "{path}");
        }
        // Whether there is a node to start with cannot be said without its type.
        assert!(without_type.follows("nodes") && !without_id.follows("nodes") && !whole.follows("nodes"));
        for path in ["edges[0].on", "edges[0]", "variables"] {
            assert!(![&without_id, &without_type, &whole].iter().any(|draft| draft.follows(path)), "{path}");
        }
    }

    #[test]
    fn an_edge_follows_from_what_is_wrong_in_it_and_nothing_else_does() {
        let draft = read_draft(json!({"nodes": [], "edges": [{"source": "a", "target": 7}], "max_steps": "x"}));
        let draft = draft.expect("a draft");
        assert!(draft.follows("edges[0]") && draft.follows("edges[0].target") && draft.follows("max_steps"));
        assert!(!draft.follows("edges[1]") && !draft.follows("edges[0].source") && !draft.follows("edges"));
    }

    #[test]
    fn a_list_that_is_none_or_too_long_is_named_and_nothing_that_follows_from_it() {
        let long = vec![Value::Null; ELEMENTS_MAX + 1];
        for nodes in [json!(7), json!(null), json!(long)] {
            assert_eq!(paths(json!({"nodes": nodes, "edges": [], "on_error": "a"})), ["nodes"]);
        }
        let draft = read_draft(json!({"edges": []})).expect("a draft");
        assert!(draft.follows("nodes") && draft.follows("edges[0].source") && draft.follows("on_error"));
    }

    #[test]
    fn no_more_errors_are_reported_than_anybody_reads() {
        let draft = read_draft(json!({"nodes": vec![7; ERRORS_MAX + 10], "edges": []})).expect("a draft");
        assert_eq!((draft.errors.len(), draft.spec.nodes.len()), (ERRORS_MAX, ERRORS_MAX + 10));
    }

    #[test]
    fn every_error_has_its_path() {
        let document = json!({
            "nodes": [{"id": "start", "type": "start", "surprise": 1}, 7],
            "edges": [{"source": "start"}],
            "surprise": 1,
        });
        assert_eq!(paths(document), ["edges[0]", "nodes[0].surprise", "nodes[1]", "surprise"]);
        let document = json!({
            "nodes": [{"id": "start", "type": "start", "one": 1, "two": 2}],
            "edges": [{"source": "start", "target": "a", "on": true, "three": 3}],
        });
        assert_eq!(paths(document), ["edges[0].on", "edges[0].three", "nodes[0].one", "nodes[0].two"]);
        assert_eq!(paths(json!([])), ["spec"]);
        assert_eq!(paths(json!({"nodes": 1})), ["edges", "nodes"]);
    }
}
