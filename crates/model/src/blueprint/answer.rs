//! What the handler of a state answers with.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Action;
use crate::wording::in_plain_words;

/// The variable with the end of the last task, approval or blueprint. No data have this name.
pub const TASK_RESULT: &str = "task_result";

/// What the handler of a state answers with.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HandlerAnswer {
    /// Data that change. What is not named stays.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub data: Map<String, Value>,
    /// At most one of them leads on. If none does, what the state itself says counts; if that is nothing, the run is over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
}

impl HandlerAnswer {
    /// Reads what a handler answered; nothing at all is an answer, too. Says where it is wrong.
    pub fn read(value: Value) -> Result<Self, String> {
        match value {
            Value::Null => Ok(Self::default()),
            Value::Object(_) => serde_path_to_error::deserialize(value).map_err(|error| {
                let (path, what) = (error.path().to_string(), in_plain_words(&error.inner().to_string()));
                if path == "." { what } else { format!("{path}: {what}") }
            }),
            _ => Err("must be an object with `data` and `actions`, or nothing".to_owned()),
        }
    }
}
