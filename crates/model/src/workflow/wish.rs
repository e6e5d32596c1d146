//! How somebody who asks for a run names the workflow, and where the run is to stop.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{NodeId, WorkflowSpec};
use crate::name::ResourceName;

/// Which workflow: its name, its name and a version, or a definition written for this one run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum WorkflowField {
    Name(ResourceName),
    Version(WorkflowVersion),
    /// Kept as it was written, so that whoever reads it can say everything that is wrong with it.
    Inline(#[schemars(with = "WorkflowSpec")] Value),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkflowVersion {
    pub name: ResourceName,
    /// The active one unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

impl<'de> Deserialize<'de> for WorkflowField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let value = Value::deserialize(deserializer)?;
        match &value {
            Value::String(name) => ResourceName::new(name).map(Self::Name).map_err(D::Error::custom),
            Value::Object(fields) if fields.contains_key("name") && !fields.contains_key("nodes") => {
                serde_json::from_value(value).map(Self::Version).map_err(D::Error::custom)
            }
            Value::Object(_) => Ok(Self::Inline(value)),
            _ => Err(D::Error::custom("the name of a workflow, or an object")),
        }
    }
}

/// Where a run should stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Breakpoint {
    pub node: NodeId,
    /// Only when this holds, such as `{{variables.total > 100}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_workflow_is_named_in_three_ways() {
        let read = |value: Value| serde_json::from_value::<WorkflowField>(value);
        assert!(matches!(read(json!("order")), Ok(WorkflowField::Name(_))));
        let version = read(json!({"name": "order", "version": 3}));
        assert!(matches!(version, Ok(WorkflowField::Version(WorkflowVersion { version: Some(3), .. }))));
        assert!(matches!(read(json!({"nodes": [], "edges": [], "name": 1})), Ok(WorkflowField::Inline(_))));
        for bad in [json!(7), json!("Not A Name!"), json!({"name": "order", "versoin": 3}), json!(["order"])] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }
}
