//! No secret stands in a definition: it is kept in every version, and shown to whoever may read.

use super::BlueprintSpec;
use crate::resource::BadSpec;
use crate::workflow::look_for_secrets;

impl BlueprintSpec {
    /// Whether nothing in it looks like the value of a secret. What it means is checked by the room `workflow`.
    pub fn check(&self) -> Result<(), BadSpec> {
        let mut found = Vec::new();
        for (name, state) in &self.states {
            for (index, action) in state.actions.iter().enumerate() {
                // An action is written with text keys and finite numbers, so it is JSON.
                let value = serde_json::to_value(action).unwrap_or_default();
                look_for_secrets(&value, &format!("states.{name}.actions[{index}]"), &mut found);
            }
        }
        BadSpec::several(found)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::resource::{ResourceKind, Spec};

    #[test]
    fn a_value_has_no_place_in_it() {
        let key = format!("sk_live_{}", "x".repeat(24));
        let blueprint = json!({
            "start": "a",
            "states": {"a": {"actions": [
                {"dispatch_task": {"type": "charge", "params": {"key": [key]}, "transitions": {"success": "a"}}},
            ]}},
        });
        let spec = Spec::from_value(ResourceKind::Blueprint, blueprint).expect("it can be read");
        let bad = spec.check().expect_err("it is refused");
        assert_eq!((bad.path.as_str(), bad.forbidden), ("states.a.actions[0].dispatch_task.params.key[0]", true));
        assert!(!bad.to_string().contains("sk_live_"), "{bad}");
    }

    #[test]
    fn a_blueprint_is_written_in_one_way() {
        let text = r#"{"start":"a","states":{"a":{"final":true}},"max_steps":10000}"#;
        let value = json!({"states": {"a": {"actions": [], "retries": 0, "final": true}}, "start": "a"});
        let spec = Spec::from_value(ResourceKind::Blueprint, value).expect("it can be read");
        assert_eq!(spec.canonical(), text);
    }

    #[test]
    fn what_cannot_be_read_has_a_place() {
        for (state, path) in [
            (json!({"retrys": 3}), "states.a.retrys"),
            (json!({"actions": [{"jump": "b"}]}), "states.a.actions[0]"),
            (json!({"actions": [{"dispatch_task": {"type": "x"}}]}), "states.a.actions[0].dispatch_task"),
            (json!({"transitions": [["b"]]}), "states.a.transitions[0]"),
        ] {
            let value = json!({"start": "a", "states": {"a": state}});
            let bad = Spec::from_value(ResourceKind::Blueprint, value).expect_err("it cannot be read");
            assert_eq!(bad.path, path, "{bad}");
        }
        let bad = Spec::from_value(ResourceKind::Blueprint, json!([])).expect_err("it cannot be read");
        assert_eq!(bad.path, "spec");
    }
}
