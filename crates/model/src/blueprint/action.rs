//! What a state can do. Written into a blueprint, and answered by handlers, in the same words.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::name::{Labels, ResourceName, TaskType};

/// Which state follows on which word.
pub type Transitions = BTreeMap<String, String>;

/// One thing that a state does. All but `set` lead on to another state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Goes on to this state.
    TransitionTo(String),
    /// Has a worker do something.
    DispatchTask(#[serde(deserialize_with = "crate::shape::by_name")] DispatchTask),
    /// Has workers do several things at once.
    DispatchParallel(#[serde(deserialize_with = "crate::shape::by_name")] DispatchParallel),
    /// Waits for a person.
    AwaitApproval(#[serde(deserialize_with = "crate::shape::by_name")] AwaitApproval),
    /// Runs another blueprint.
    RunBlueprint(#[serde(deserialize_with = "crate::shape::by_name")] RunBlueprint),
    /// Does nothing for a while.
    Sleep(#[serde(deserialize_with = "crate::shape::by_name")] Sleep),
    /// Changes data: each name has this value from now on.
    Set(Map<String, Value>),
}

impl Action {
    /// As it is written.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::TransitionTo(_) => "transition_to",
            Self::DispatchTask(_) => "dispatch_task",
            Self::DispatchParallel(_) => "dispatch_parallel",
            Self::AwaitApproval(_) => "await_approval",
            Self::RunBlueprint(_) => "run_blueprint",
            Self::Sleep(_) => "sleep",
            Self::Set(_) => "set",
        }
    }

    /// Whether another state follows.
    pub const fn leads_on(&self) -> bool {
        !matches!(self, Self::Set(_))
    }

    /// The states that may follow, each with the path to where it is named.
    pub fn targets<'a>(&'a self) -> Vec<(String, &'a str)> {
        let each = |transitions: &'a Transitions| {
            transitions
                .iter()
                .map(|(on, state)| (format!("{}.transitions.{on}", self.word()), state.as_str()))
                .collect()
        };
        match self {
            Self::TransitionTo(state) => vec![(self.word().to_owned(), state)],
            Self::DispatchTask(DispatchTask { transitions, .. })
            | Self::AwaitApproval(AwaitApproval { transitions, .. })
            | Self::RunBlueprint(RunBlueprint { transitions, .. }) => each(transitions),
            Self::DispatchParallel(all) => vec![(format!("{}.aggregate_into", self.word()), &all.aggregate_into)],
            Self::Sleep(sleep) => vec![(format!("{}.then", self.word()), &sleep.then)],
            Self::Set(_) => Vec::new(),
        }
    }
}

/// Work for a worker, and what follows on its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DispatchTask {
    /// What sort of work it is. Workers say which of these they take.
    #[serde(rename = "type")]
    pub task_type: TaskType,
    /// What to work on.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub params: Value,
    /// By `success`, `failure`, `timeout`, or a word that the result has as its `status`.
    pub transitions: Transitions,
    /// How long it may take, from the dispatch to the result: waiting for a worker counts, and so does every attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    /// How often it is tried again after it has failed. As every job is, unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 999))]
    pub retries: Option<u32>,
    /// Labels that a worker must have. `>=2` as a value asks for at least that much of a resource.
    #[serde(default, skip_serializing_if = "Labels::is_empty", deserialize_with = "Labels::deserialize_required")]
    pub labels: Labels,
    /// Higher goes first within its line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -100, max = 100))]
    pub priority: Option<i16>,
}

/// Several tasks at once, and the state that is told of all their ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DispatchParallel {
    #[serde(deserialize_with = "crate::shape::each_by_name")]
    pub tasks: Vec<ParallelTask>,
    /// How many at a time; all of them unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub concurrency: Option<u32>,
    /// The state that comes next, however they end. Their results are in `task_result.results`, in the order of the tasks.
    pub aggregate_into: String,
    /// After a failure no more are begun.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fail_fast: bool,
}

/// One of several tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParallelTask {
    #[serde(rename = "type")]
    pub task_type: TaskType,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub params: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 999))]
    pub retries: Option<u32>,
    #[serde(default, skip_serializing_if = "Labels::is_empty", deserialize_with = "Labels::deserialize_required")]
    pub labels: Labels,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -100, max = 100))]
    pub priority: Option<i16>,
}

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AwaitApproval {
    pub title: String,
    /// By `approved`, `rejected` and `expired`.
    pub transitions: Transitions,
    /// How long to wait; for ever unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    /// How many different people must say yes; one unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub quorum: Option<u32>,
    /// Whether the person who started the run cannot approve; so unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub four_eyes: Option<bool>,
}

/// Another blueprint, as one step of this one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunBlueprint {
    pub blueprint: ResourceName,
    /// The active version unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// What it begins with.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
    /// By `success`, `failure`, or a word that the result has as its `status`.
    pub transitions: Transitions,
}

/// A pause. Either `seconds` or `until`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sleep {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Such as `2026-01-03T00:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The state that comes next.
    pub then: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_action_says_what_it_is_called_and_where_it_leads() {
        for (value, targets) in [
            (json!({"transition_to": "b"}), vec![("transition_to", "b")]),
            (
                json!({"dispatch_task": {"type": "t", "transitions": {"failure": "c", "success": "b"}}}),
                vec![("dispatch_task.transitions.failure", "c"), ("dispatch_task.transitions.success", "b")],
            ),
            (
                json!({"dispatch_parallel": {"tasks": [{"type": "t"}], "aggregate_into": "b"}}),
                vec![("dispatch_parallel.aggregate_into", "b")],
            ),
            (
                json!({"await_approval": {"title": "?", "transitions": {"approved": "b"}}}),
                vec![("await_approval.transitions.approved", "b")],
            ),
            (
                json!({"run_blueprint": {"blueprint": "x", "transitions": {"success": "b"}}}),
                vec![("run_blueprint.transitions.success", "b")],
            ),
            (json!({"sleep": {"seconds": 1.5, "then": "b"}}), vec![("sleep.then", "b")]),
            (json!({"set": {"a": 1}}), vec![]),
        ] {
            let action: Action = serde_json::from_value(value.clone()).expect("an action");
            let found = action.targets();
            let found: Vec<_> = found.iter().map(|(path, state)| (path.as_str(), *state)).collect();
            assert_eq!(found, targets, "{value}");
            assert_eq!(action.leads_on(), !targets.is_empty(), "{value}");
            assert!(value.get(action.word()).is_some(), "{value}");
        }
    }
}
