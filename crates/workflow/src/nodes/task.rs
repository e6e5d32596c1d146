//! `task`: work for a worker, as `POST /jobs` takes it.

use bowline_model::{JobPolicy, Labels, Lane, RunError, TaskType};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::Building;
use super::calling::{Caller, CallerType};
use super::fields::Tree;
use super::span::Span;
use crate::node::{Call, CallWhat, Visit};

#[derive(Debug)]
pub(super) struct Task {
    task_type: TaskType,
    payload: Tree,
    lane: Option<Lane>,
    labels: Labels,
    priority: Option<i16>,
    deadline: Option<Span>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// What sort of work it is. Workers say which of these they take.
    #[serde(rename = "type")]
    task_type: TaskType,
    /// What to work on: any JSON, with places in its texts.
    #[serde(default)]
    payload: Value,
    #[serde(default)]
    lane: Option<Lane>,
    /// Labels that a worker must have. `>=2` as a value asks for at least that much of a resource.
    #[serde(default, deserialize_with = "Labels::deserialize_required")]
    labels: Labels,
    /// Higher goes first within its line.
    #[serde(default)]
    #[schemars(range(min = -100, max = 100))]
    priority: Option<i16>,
    /// How long all of it may take, in milliseconds, from when the node is entered: waiting for a worker, and every attempt.
    /// Then the job is stopped, and the node has failed. The policy says how long one attempt may take.
    #[serde(default)]
    deadline_ms: Option<u64>,
    /// The same, such as `5m`. A text with places.
    #[serde(default)]
    deadline: Option<String>,
}

/// Says so if a job cannot have this priority.
pub(super) fn check_priority(priority: Option<i16>, building: &mut Building<'_>) {
    if priority.is_some_and(|priority| !(-100..=100).contains(&priority)) {
        building.mistake("/priority", "must be between -100 and 100");
    }
}

impl CallerType for Task {
    const TYPE: &'static str = "task";
    const ABOUT: &'static str = "Has a worker do something. The output is what the worker says.";
    type Config = Config;

    fn build(config: Config, building: &mut Building<'_>) -> Self {
        if config.task_type.is_reserved() {
            let what = format!("types that begin with `{}` are not for everybody", TaskType::RESERVED);
            building.mistake("/type", what);
        }
        check_priority(config.priority, building);
        let (millis, text) = (("/deadline_ms", config.deadline_ms), ("/deadline", config.deadline.as_deref()));
        Self {
            task_type: config.task_type,
            payload: building.tree("/payload", &config.payload),
            lane: config.lane,
            labels: config.labels,
            priority: config.priority,
            deadline: Span::build_limit(millis, text, building),
        }
    }
}

impl Caller for Task {
    fn call(&self, visit: Visit<'_>) -> Result<Call, RunError> {
        Ok(Call {
            what: CallWhat::Task {
                task_type: self.task_type.clone(),
                payload: self.payload.value(visit.context)?.into_owned(),
                lane: self.lane,
                labels: self.labels.clone(),
                priority: self.priority,
            },
            policy: visit.policy.clone(),
            timeout_ms: JobPolicy::default().timeout_ms,
            deadline_ms: self.deadline.as_ref().map(|deadline| deadline.limit_millis(visit.context)).transpose()?,
        })
    }
}
