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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_handler_answers_with_data_and_actions_or_with_nothing() {
        assert_eq!(HandlerAnswer::read(Value::Null), Ok(HandlerAnswer::default()));
        assert_eq!(HandlerAnswer::read(json!({})), Ok(HandlerAnswer::default()));
        let answer = HandlerAnswer::read(json!({"data": {"a": 1}, "actions": [{"transition_to": "b"}]}));
        let answer = answer.expect("it is good");
        assert_eq!((&answer.data["a"], &answer.actions[..]), (&json!(1), &[Action::TransitionTo("b".to_owned())][..]));
    }

    #[test]
    fn an_answer_that_cannot_be_read_says_where_it_is_wrong() {
        for (value, says) in [
            (json!([]), "must be an object with `data` and `actions`"),
            (json!("done"), "must be an object with `data` and `actions`"),
            (json!({"data": 7}), "data: invalid type"),
            (json!({"actions": [{"jump": "b"}]}), "actions[0]"),
        ] {
            let error = HandlerAnswer::read(value.clone()).expect_err("it is refused");
            assert!(error.starts_with(says), "{value}: {error}");
        }
    }
}
