//! Where a definition says itself what is executed on hosts, instead of naming a command type.

use serde_json::{Map, Value};

use super::WorkflowSpec;

impl WorkflowSpec {
    /// Whether one of its nodes has a command written into it.
    pub fn has_inline_command(&self) -> bool {
        self.nodes.iter().any(|node| in_node(&node.node_type, &node.config))
    }
}

/// The same for a definition that was not read yet.
pub fn in_definition(definition: &Value) -> bool {
    let nodes = definition.get("nodes").and_then(Value::as_array);
    nodes.into_iter().flatten().any(in_value)
}

fn in_value(node: &Value) -> bool {
    let parts = (node.get("type").and_then(Value::as_str), node.get("config").and_then(Value::as_object));
    matches!(parts, (Some(node_type), Some(config)) if in_node(node_type, config))
}

fn in_node(node_type: &str, config: &Map<String, Value>) -> bool {
    match node_type {
        // A command type is named by a text, or by an object with its name.
        "command" => {
            config.get("command").and_then(Value::as_object).is_some_and(|command| !command.contains_key("name"))
        }
        // A node that is carried out for each of several things.
        _ => config.get("node").is_some_and(in_value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_that_is_written_into_a_node_is_found() {
        let with = |node: Value| in_definition(&json!({"nodes": [{"id": "a", "type": "start"}, node], "edges": []}));
        let node =
            |command: Value| json!({"id": "c", "type": "command", "config": {"command": command, "selector": "all"}});
        assert!(with(node(json!({"argv": ["id"]}))));
        assert!(with(node(json!({"script": "id"}))));
        assert!(!with(node(json!("restart"))));
        assert!(!with(node(json!({"name": "restart", "version": 3}))));
        let each = |inner: Value| json!({"id": "e", "type": "foreach", "config": {"items": [1], "node": inner}});
        assert!(with(each(node(json!({"argv": ["id"]})))));
        assert!(!with(each(node(json!("restart")))));
        assert!(!with(json!({"id": "l", "type": "log", "config": {"message": "x"}})));
    }
}
