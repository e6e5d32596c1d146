//! A definition out of JSON: node by node and edge by edge, so that one mistake does not hide the others.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{EdgeSpec, NodeSpec, WorkflowSpec};
use crate::resource::BadSpec;
use crate::wording::in_plain_words;

/// Elements of a list that are looked at. How many there may be is checked later; this is only not to read for ever.
const ELEMENTS_MAX: usize = 100_000;
/// Mistakes that are told of at once.
const MISTAKES_MAX: usize = 100;

/// Reads a workflow. Unknown fields are named with their path.
pub fn read_workflow(value: Value) -> Result<WorkflowSpec, BadSpec> {
    let Value::Object(mut fields) = value else {
        return Err(BadSpec::at("spec", "a workflow is an object with `nodes` and `edges`"));
    };
    let mut mistakes = Vec::new();
    let nodes: Vec<NodeSpec> = list("nodes", &mut fields, &mut mistakes);
    let edges: Vec<EdgeSpec> = list("edges", &mut fields, &mut mistakes);
    let rest: Option<WorkflowSpec> = read_at("", Value::Object(fields), &mut mistakes);
    mistakes.truncate(MISTAKES_MAX);
    BadSpec::several(mistakes)?;
    rest.map(|rest| WorkflowSpec { nodes, edges, ..rest })
        .ok_or_else(|| BadSpec::at("spec", "a workflow is an object with `nodes` and `edges`"))
}

/// Takes the elements of a list out of the fields, and leaves an empty list in its place.
fn list<T: DeserializeOwned>(name: &str, fields: &mut Map<String, Value>, mistakes: &mut Vec<BadSpec>) -> Vec<T> {
    let elements = match fields.insert(name.to_owned(), Value::Array(Vec::new())) {
        Some(Value::Array(elements)) => elements,
        Some(_) => {
            mistakes.push(BadSpec::at(name, "must be a list"));
            return Vec::new();
        }
        None => {
            mistakes.push(BadSpec::at(name, "is missing"));
            return Vec::new();
        }
    };
    if elements.len() > ELEMENTS_MAX {
        mistakes.push(BadSpec::at(name, format!("{} are too many", elements.len())));
        return Vec::new();
    }
    let mut read = Vec::with_capacity(elements.len());
    for (index, element) in elements.into_iter().enumerate() {
        let path = format!("{name}[{index}]");
        if mistakes.len() >= MISTAKES_MAX {
            break;
        }
        if element.is_object() {
            read.extend(read_at::<T>(&path, element, mistakes));
        } else {
            mistakes.push(BadSpec::at(path, "must be an object"));
        }
    }
    read
}

/// Reads what stands at a path. The place of a mistake goes as deep as the reader came.
fn read_at<T: DeserializeOwned>(base: &str, value: Value, mistakes: &mut Vec<BadSpec>) -> Option<T> {
    match serde_path_to_error::deserialize(value) {
        Ok(read) => Some(read),
        Err(error) => {
            let inner = error.path().to_string();
            let path = match inner.as_str() {
                "." if base.is_empty() => "spec".to_owned(),
                "." => base.to_owned(),
                inner if base.is_empty() => inner.to_owned(),
                inner => format!("{base}.{inner}"),
            };
            mistakes.push(BadSpec::at(path, in_plain_words(&error.inner().to_string())));
            None
        }
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
    fn every_error_has_its_path() {
        let document = json!({
            "nodes": [{"id": "start", "type": "start", "surprise": 1}, 7],
            "edges": [{"source": "start"}],
            "surprise": 1,
        });
        assert_eq!(paths(document), ["edges[0]", "nodes[0].surprise", "nodes[1]", "surprise"]);
        assert_eq!(paths(json!([])), ["spec"]);
        assert_eq!(paths(json!({"nodes": 1})), ["edges", "nodes"]);
    }
}
