//! Which command: by name, by name and version, or written where it is asked for.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::fleet::CommandSpec;
use crate::name::ResourceName;

/// Which command: the name of a type, a type and a version, or a command written for this one job.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum CommandField {
    Name(ResourceName),
    Version(VersionedName),
    Inline(Box<CommandSpec>),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VersionedName {
    pub name: ResourceName,
    /// The active one unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

impl<'de> Deserialize<'de> for CommandField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let value = Value::deserialize(deserializer)?;
        match &value {
            Value::String(name) => ResourceName::new(name).map(Self::Name).map_err(D::Error::custom),
            Value::Object(fields) if fields.contains_key("name") => {
                serde_json::from_value(value).map(Self::Version).map_err(D::Error::custom)
            }
            Value::Object(_) => serde_json::from_value(value).map(Self::Inline).map_err(D::Error::custom),
            _ => Err(D::Error::custom("the name of a command, or an object")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_is_named_in_three_ways() {
        let read = |value: Value| serde_json::from_value::<CommandField>(value);
        assert!(matches!(read(json!("restart")), Ok(CommandField::Name(_))));
        let version = read(json!({"name": "restart", "version": 3}));
        assert!(matches!(version, Ok(CommandField::Version(VersionedName { version: Some(3), .. }))));
        assert!(matches!(read(json!({"argv": ["id"]})), Ok(CommandField::Inline(_))));
        for bad in [json!(7), json!("Not A Name!"), json!({"name": "restart", "argv": []}), json!({"agrv": []})] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }
}
