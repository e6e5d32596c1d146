//! No secret stands in a definition: it is kept in every version, and shown to whoever may read.

use serde_json::Value;

use super::WorkflowSpec;
use crate::resource::BadSpec;
use crate::secret::looks_secret;

impl WorkflowSpec {
    /// Whether nothing in it looks like the value of a secret. What its graph means is checked by the room `workflow`.
    pub fn check(&self) -> Result<(), BadSpec> {
        let mut found = Vec::new();
        for (name, value) in &self.variables {
            look(value, &format!("variables.{name}"), &mut found);
        }
        for (index, node) in self.nodes.iter().enumerate() {
            for (name, value) in &node.config {
                look(value, &format!("nodes[{index}].config.{name}"), &mut found);
            }
        }
        BadSpec::several(found)
    }
}

/// Values are as deep as JSON may be that was read, so this does not go deeper either.
pub(crate) fn look(value: &Value, path: &str, found: &mut Vec<BadSpec>) {
    match value {
        Value::String(text) => {
            if let Some(what) = looks_secret(text) {
                found.push(BadSpec::forbidden(path, format!("this looks like {what}; name a secret_ref instead")));
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                look(value, &format!("{path}[{index}]"), found);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                look(value, &format!("{path}.{name}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::resource::{ResourceKind, Spec};

    #[test]
    fn a_value_has_no_place_in_it() {
        let key = format!("sk_live_{}", "x".repeat(24));
        let workflow = json!({
            "nodes": [{"id": "a", "type": "http_request", "config": {"headers": {"Authorization": format!("Bearer {key}")}}}],
            "edges": [],
            "variables": {"key": [key]},
        });
        let spec = Spec::from_value(ResourceKind::Workflow, workflow).expect("it can be read");
        let bad = spec.check().expect_err("it is refused");
        let paths: Vec<_> = bad.all().map(|bad| (bad.path.as_str(), bad.forbidden)).collect();
        assert_eq!(paths, [("variables.key[0]", true), ("nodes[0].config.headers.Authorization", true)]);
        assert!(!bad.to_string().contains("sk_live_"), "{bad}");
    }

    #[test]
    fn a_workflow_is_written_in_one_way() {
        let text = r#"{"nodes":[{"id":"a","type":"start"}],"edges":[],"max_steps":10000}"#;
        let value = json!({"edges": [], "nodes": [{"type": "start", "id": "a", "config": {}, "policy": {}}]});
        let spec = Spec::from_value(ResourceKind::Workflow, value).expect("it can be read");
        assert_eq!(spec.canonical(), text);
    }
}
