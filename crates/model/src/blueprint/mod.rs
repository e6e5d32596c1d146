//! A blueprint as people write it: states, what is done in them, and where they lead.
//!
//! Only the shape is known here. Whether the whole makes sense is the business of the room `workflow`, for which a state is
//! a node like any other.

mod action;
mod answer;
mod values;
mod wish;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use action::{
    Action, AwaitApproval, DispatchParallel, DispatchTask, ParallelTask, RunBlueprint, Sleep, Transitions,
};
pub use answer::{HandlerAnswer, TASK_RESULT};
pub use wish::BlueprintField;

use crate::name::TaskType;
use crate::read_all::{ReadAll, missing_field, read_all};
use crate::resource::BadSpec;

/// A state machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlueprintSpec {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The state in which every run begins.
    pub start: String,
    pub states: BTreeMap<String, StateSpec>,
    /// Steps that one run may take; each state takes two. A loop that does not end, ends here.
    #[serde(default = "max_steps")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_steps: u32,
}

const fn max_steps() -> u32 {
    BlueprintSpec::MAX_STEPS
}

impl BlueprintSpec {
    /// Unless the blueprint says otherwise.
    pub const MAX_STEPS: u32 = crate::workflow::WorkflowSpec::MAX_STEPS;

    /// Reads a blueprint. An unknown field is named with its path.
    pub fn read(value: serde_json::Value) -> Result<Self, BadSpec> {
        let ReadAll { value, errors, .. } = Self::read_draft(value);
        BadSpec::several(errors)?;
        value.ok_or_else(|| BadSpec::at("spec", "a blueprint is an object with `start` and `states`"))
    }

    /// Reads as much of a blueprint as can be read, with every error of its shape.
    pub fn read_draft(value: serde_json::Value) -> ReadAll<Self> {
        if !value.is_object() {
            let error = BadSpec::at("spec", "a blueprint is an object with `start` and `states`");
            return ReadAll { value: None, errors: vec![error], without_lists: false };
        }
        let missing = ["start", "states"].into_iter().filter(|field| value.get(*field).is_none());
        let missing: Vec<BadSpec> = missing.map(|field| BadSpec::at(field, "is missing")).collect();
        let ReadAll { value, mut errors, without_lists } = read_all("", value);
        // Reading stops at the first field that is missing, and all of them are named above.
        errors.retain(|error: &BadSpec| !(error.path == "spec" && missing_field(&error.what).is_some()));
        errors.extend(missing);
        ReadAll { value, errors, without_lists }
    }
}

/// One state.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StateSpec {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Who decides what is done here: a task of this type is given the data, and answers with actions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<TaskType>,
    /// How often the handler is asked again after it has failed.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(range(max = 999))]
    pub retries: u32,
    /// How long to wait before each time, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 86_400_000))]
    pub retry_delay_ms: Option<u64>,
    /// How long the handler may take each time it is asked, in milliseconds, from when a worker has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 604_800_000))]
    pub timeout_ms: Option<u64>,
    /// How long all of it may take, in milliseconds, from when the state is entered: waiting for a worker, and asking again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 604_800_000))]
    pub deadline_ms: Option<u64>,
    /// What is done here: changes of data first, then at most one action that leads on. Texts may have places.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
    /// Where it goes on if no action leads on: the first whose condition holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[serde(deserialize_with = "crate::shape::each_by_name")]
    pub transitions: Vec<TransitionSpec>,
    /// The run ends here, and its data are its result.
    #[serde(rename = "final", skip_serializing_if = "std::ops::Not::not")]
    pub is_final: bool,
    /// The run ends here, and has failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Why it has failed. A text with places.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The state that takes over when this one fails. Without it, the run fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde asks for")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The way from one state to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransitionSpec {
    /// Only if this holds, such as `variables.total > 100`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    pub to: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_that_is_missing_is_named() {
        let missing = |value| {
            let bad = BlueprintSpec::read(value).expect_err("not whole");
            bad.all().map(|bad| format!("{}: {}", bad.path, bad.what)).collect::<Vec<_>>()
        };
        assert_eq!(missing(json!({})), ["start: is missing", "states: is missing"]);
        assert_eq!(missing(json!({"start": "a"})), ["states: is missing"]);
        let both = missing(json!({"start": "a", "sates": {}}));
        assert_eq!(
            (both.len(), both[0].starts_with("sates: unknown field"), both[1].as_str()),
            (2, true, "states: is missing")
        );
        assert!(missing(json!([]))[0].contains("an object with `start` and `states`"));
    }
}
