//! A definition out of JSON: node by node and edge by edge, so that one mistake does not hide the others.

use bowline_model::workflow::{EdgeSpec, NodeSpec, WorkflowSpec};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{EDGES_MAX, Mistakes, NODES_MAX, read_at};
use crate::program::DefinitionMistake;

/// Reads a workflow. Unknown fields are named with their path.
pub fn read_workflow(value: Value) -> Result<WorkflowSpec, Vec<DefinitionMistake>> {
    let mut mistakes = Mistakes::default();
    let Value::Object(mut fields) = value else {
        mistakes.add("spec", "a workflow is an object with `nodes` and `edges`");
        return Err(mistakes.into_list());
    };
    let nodes: Vec<NodeSpec> = list("nodes", NODES_MAX, &mut fields, &mut mistakes);
    let edges: Vec<EdgeSpec> = list("edges", EDGES_MAX, &mut fields, &mut mistakes);
    let rest: Option<WorkflowSpec> = read_at("", Value::Object(fields), &mut mistakes);
    match rest {
        Some(rest) if mistakes.is_empty() => Ok(WorkflowSpec { nodes, edges, ..rest }),
        _ => Err(mistakes.into_list()),
    }
}

/// Takes the elements of a list out of the fields, and leaves an empty list in its place.
fn list<T: DeserializeOwned>(
    name: &str,
    most: usize,
    fields: &mut Map<String, Value>,
    mistakes: &mut Mistakes,
) -> Vec<T> {
    let elements = match fields.insert(name.to_owned(), Value::Array(Vec::new())) {
        Some(Value::Array(elements)) => elements,
        Some(_) => {
            mistakes.add(name, "must be a list");
            return Vec::new();
        }
        None => {
            mistakes.add(name, "is missing");
            return Vec::new();
        }
    };
    if elements.len() > most {
        mistakes.add(name, format!("a workflow has at most {most} {name}, this one has {}", elements.len()));
        return Vec::new();
    }
    let mut read = Vec::with_capacity(elements.len());
    for (index, element) in elements.into_iter().enumerate() {
        let path = format!("{name}[{index}]");
        if element.is_object() {
            read.extend(read_at::<T>(&path, element, mistakes));
        } else {
            mistakes.add(path, "must be an object");
        }
    }
    read
}
