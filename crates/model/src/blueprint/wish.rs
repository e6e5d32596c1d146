//! How somebody who asks for a run names the blueprint.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::BlueprintSpec;
use crate::name::ResourceName;
use crate::workflow::WorkflowVersion;

/// Which blueprint: its name, its name and a version, or a definition written for this one run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum BlueprintField {
    Name(ResourceName),
    Version(WorkflowVersion),
    /// Kept as it was written, so that whoever reads it can say what is wrong with it.
    Inline(#[schemars(with = "BlueprintSpec")] Value),
}

impl<'de> Deserialize<'de> for BlueprintField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let value = Value::deserialize(deserializer)?;
        match &value {
            Value::String(name) => ResourceName::new(name).map(Self::Name).map_err(D::Error::custom),
            Value::Object(fields) if fields.contains_key("name") && !fields.contains_key("states") => {
                serde_json::from_value(value).map(Self::Version).map_err(D::Error::custom)
            }
            Value::Object(_) => Ok(Self::Inline(value)),
            _ => Err(D::Error::custom("the name of a blueprint, or an object")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_blueprint_is_named_in_three_ways() {
        let read = |value: Value| serde_json::from_value::<BlueprintField>(value);
        assert!(matches!(read(json!("order")), Ok(BlueprintField::Name(_))));
        let version = read(json!({"name": "order", "version": 3}));
        assert!(matches!(version, Ok(BlueprintField::Version(WorkflowVersion { version: Some(3), .. }))));
        assert!(matches!(read(json!({"start": "a", "states": {}, "name": 1})), Ok(BlueprintField::Inline(_))));
        assert!(matches!(read(json!({"start": "a"})), Ok(BlueprintField::Inline(_))));
        for bad in [json!(7), json!("Not A Name!"), json!({"name": "order", "versoin": 3}), json!(["order"])] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }
}
