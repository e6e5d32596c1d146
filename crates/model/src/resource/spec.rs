//! What a resource says, whatever its kind.

use schemars::{Schema, SchemaGenerator};

use super::ResourceKind;
use crate::fleet::CommandSpec;

/// What is wrong with what somebody wrote, and where in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {what}")]
pub struct BadSpec {
    pub path: String,
    pub what: String,
}

/// The content of a resource.
#[derive(Debug, Clone, PartialEq)]
pub enum Spec {
    Command(Box<CommandSpec>),
}

impl Spec {
    pub const fn kind(&self) -> ResourceKind {
        match self {
            Self::Command(_) => ResourceKind::Command,
        }
    }

    /// Reads what somebody wrote. Unknown fields are refused by name.
    pub fn from_value(kind: ResourceKind, value: serde_json::Value) -> Result<Self, BadSpec> {
        let read = |e: serde_path_to_error::Error<serde_json::Error>| BadSpec {
            path: Some(e.path().to_string()).filter(|path| path != ".").unwrap_or_else(|| "spec".to_owned()),
            what: e.inner().to_string(),
        };
        let value = match value {
            object @ serde_json::Value::Object(_) => object,
            _ => return Err(BadSpec { path: "spec".to_owned(), what: "must be an object".to_owned() }),
        };
        match kind {
            ResourceKind::Command => {
                serde_path_to_error::deserialize(value).map(|spec| Self::Command(Box::new(spec))).map_err(read)
            }
        }
    }

    /// Whether its parts fit together.
    pub fn check(&self) -> Result<(), BadSpec> {
        match self {
            Self::Command(spec) => spec.check().map_err(|bad| BadSpec { path: bad.path, what: bad.what }),
        }
    }

    /// The one way to write it, with every default in its place. Two that mean the same are written the same.
    pub fn canonical(&self) -> String {
        let text = match self {
            Self::Command(spec) => serde_json::to_string(spec),
        };
        text.expect("a spec has text keys and finite numbers, so it can be written as JSON")
    }

    /// The JSON Schema of this kind.
    pub fn schema(kind: ResourceKind, generator: &mut SchemaGenerator) -> Schema {
        match kind {
            ResourceKind::Command => generator.subschema_for::<CommandSpec>(),
        }
    }
}
