//! What is to be started, as often as somebody wants: no keys, no moment.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{CommandField, Payload, SubmitRequest};
use crate::blueprint::BlueprintField;
use crate::fleet::Rollout;
use crate::host::{HostRef, Selector, Vars};
use crate::job::JobPolicy;
use crate::lane::Lane;
use crate::name::{InventoryName, Labels, ResourceName, TaskType};
use crate::resource::{BadSpec, ResourceKind};
use crate::workflow::{WorkflowField, inline_command};

/// A job as `POST /jobs` takes it, without keys and without `run_at`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum StartSpec {
    Task(TaskStart),
    Command(Box<CommandStart>),
    Workflow(Box<WorkflowStart>),
}

/// Work for workers.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct TaskStart {
    /// What sort of work it is. Workers say which of these they take.
    pub r#type: TaskType,
    /// What to work on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<Lane>,
    /// Higher goes first within its line.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = -100, max = 100))]
    pub priority: i16,
    /// Labels a worker must have. `>=2` as a value asks for at least that much of a resource.
    #[serde(default, skip_serializing_if = "Labels::is_empty", deserialize_with = "Labels::deserialize_required")]
    pub labels: Labels,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<JobPolicy>,
}

/// A command on hosts.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct CommandStart {
    /// The name of a command type, `{"name", "version"}`, or a command as such a type has it.
    pub command: CommandField,
    #[serde(default, skip_serializing_if = "Vars::is_empty")]
    pub params: Vars,
    /// The hosts, by name or by number. These, or `selector`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<HostRef>>,
    /// Which hosts, such as `role=web & site!=fra | db[1:20]`; whoever is meant when it starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// `main` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<InventoryName>,
    /// How the command spreads over its hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// How long all of it may take, from the moment it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000, max = 2_592_000_000_u64))]
    pub deadline_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<Lane>,
    /// Higher goes first within its line.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = -100, max = 100))]
    pub priority: i16,
}

/// What is to be run: a graph or a state machine.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunField {
    /// The name of a workflow, or `{"name", "version"}`.
    Workflow(WorkflowField),
    /// The name of a blueprint, or `{"name", "version"}`.
    Blueprint(BlueprintField),
}

/// A workflow, or a blueprint.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct WorkflowStart {
    #[serde(flatten)]
    pub run: RunField,
    /// What a workflow is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    /// What a blueprint begins with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<Lane>,
    /// Higher goes first within its line.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = -100, max = 100))]
    pub priority: i16,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
const fn is_zero(priority: &i16) -> bool {
    *priority == 0
}

impl<'de> Deserialize<'de> for StartSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let request: SubmitRequest = crate::shape::by_name(deserializer)?;
        let (start, asked) = request.split().map_err(D::Error::custom)?;
        let own = [
            ("run_at", asked.run_at.is_some()),
            ("idempotency_key", asked.idempotency_key.is_some()),
            ("external_id", asked.external_id.is_some()),
            ("name", asked.name.is_some()),
            ("debug", asked.debug),
            ("breakpoints", !asked.breakpoints.is_empty()),
        ];
        match own.into_iter().find(|(_, there)| *there) {
            Some((field, _)) => {
                Err(D::Error::custom(format_args!("{field}: belongs to one job, and this can start many")))
            }
            None => match &start {
                StartSpec::Workflow(own) => own.stored().map(drop).map_err(D::Error::custom).map(|()| start),
                StartSpec::Task(_) | StartSpec::Command(_) => Ok(start),
            },
        }
    }
}

fn check_priority(priority: i16) -> Result<(), BadSpec> {
    if (-100..=100).contains(&priority) { Ok(()) } else { Err(BadSpec::at("priority", "must be between -100 and 100")) }
}

impl StartSpec {
    /// Whether its parts fit together. Whether the things it names exist is for others to find out.
    pub fn check(&self) -> Result<(), BadSpec> {
        match self {
            Self::Task(task) => task.check(),
            Self::Command(command) => command.check(),
            Self::Workflow(workflow) => workflow.check(),
        }
    }

    /// Whether what is executed on hosts is written here, instead of being named.
    pub fn has_inline_command(&self) -> bool {
        match self {
            Self::Command(command) => matches!(command.command, CommandField::Inline(_)),
            Self::Workflow(workflow) => match &workflow.run {
                RunField::Workflow(WorkflowField::Inline(value)) => inline_command::in_definition(value),
                _ => false,
            },
            Self::Task(_) => false,
        }
    }
}

impl RunField {
    /// What is stored and meant: its kind, its name, and the version, if one is named.
    pub fn named(&self) -> Option<(ResourceKind, ResourceName, Option<u32>)> {
        let (kind, name, version) = match self {
            Self::Workflow(WorkflowField::Name(name)) => (ResourceKind::Workflow, name, None),
            Self::Blueprint(BlueprintField::Name(name)) => (ResourceKind::Blueprint, name, None),
            Self::Workflow(WorkflowField::Version(version)) => (ResourceKind::Workflow, &version.name, version.version),
            Self::Blueprint(BlueprintField::Version(version)) => {
                (ResourceKind::Blueprint, &version.name, version.version)
            }
            Self::Workflow(WorkflowField::Inline(_)) | Self::Blueprint(BlueprintField::Inline(_)) => return None,
        };
        Some((kind, name.clone(), version))
    }
}

impl WorkflowStart {
    pub fn check(&self) -> Result<(), BadSpec> {
        check_priority(self.priority)
    }

    /// What is run: `workflow` or `blueprint`.
    pub const fn run_field(&self) -> &'static str {
        match self.run {
            RunField::Workflow(_) => "workflow",
            RunField::Blueprint(_) => "blueprint",
        }
    }

    /// Where what it is given stands: `input`, or `data` of a blueprint.
    pub const fn given_field(&self) -> &'static str {
        match self.run {
            RunField::Workflow(_) => "input",
            RunField::Blueprint(_) => "data",
        }
    }

    /// What it is given.
    pub fn given(&self) -> Option<&Payload> {
        self.input.as_ref().or(self.data.as_ref())
    }

    /// What it is given, as a value.
    pub fn input_value(&self) -> Result<Value, BadSpec> {
        let Some(given) = self.given() else { return Ok(Value::Null) };
        serde_json::from_str(given.as_str()).map_err(|e| BadSpec::at(self.given_field(), e.to_string()))
    }

    /// The name and the version, if it is one that is stored.
    pub fn stored(&self) -> Result<(&ResourceName, Option<u32>), BadSpec> {
        let inline = |field, what| Err(BadSpec::at(field, format!("the name of a {what} that is stored")));
        match &self.run {
            RunField::Workflow(WorkflowField::Name(name)) | RunField::Blueprint(BlueprintField::Name(name)) => {
                Ok((name, None))
            }
            RunField::Workflow(WorkflowField::Version(version))
            | RunField::Blueprint(BlueprintField::Version(version)) => Ok((&version.name, version.version)),
            RunField::Workflow(WorkflowField::Inline(_)) => inline("workflow", "workflow"),
            RunField::Blueprint(BlueprintField::Inline(_)) => inline("blueprint", "blueprint"),
        }
    }
}

impl TaskStart {
    pub fn check(&self) -> Result<(), BadSpec> {
        check_priority(self.priority)?;
        if let Some(policy) = &self.policy {
            policy.check().map_err(|e| BadSpec::at("policy", e.to_string()))?;
        }
        if self.r#type.is_reserved() {
            let what = format!("those that begin with {:?} are not for jobs", TaskType::RESERVED);
            return Err(BadSpec::at("type", what));
        }
        Ok(())
    }
}

impl CommandStart {
    /// Whether it says which hosts, in one way.
    pub fn check_choice(&self) -> Result<(), BadSpec> {
        check_priority(self.priority)?;
        match (&self.hosts, &self.selector) {
            (None, None) => {
                let what = "a command needs hosts or a selector; the selector `all` is every host";
                Err(BadSpec::at("hosts", what))
            }
            (Some(_), Some(_)) => Err(BadSpec::at("selector", "give hosts or a selector, not both")),
            (Some(_), None) | (None, Some(_)) => Ok(()),
        }
    }

    pub fn check(&self) -> Result<(), BadSpec> {
        self.check_choice()?;
        if let CommandField::Inline(spec) = &self.command {
            spec.check().map_err(|bad| BadSpec { path: format!("command.{}", bad.path), ..bad })?;
        }
        if self.hosts.as_ref().is_some_and(Vec::is_empty) {
            return Err(BadSpec::at("hosts", "an empty list means no host"));
        }
        if let Some(text) = &self.selector {
            Selector::parse(text).map_err(|e| BadSpec::at("selector", e.to_string()))?;
        }
        if let Some(rollout) = &self.rollout {
            rollout.check().map_err(|e| BadSpec::at("rollout", e.to_string()))?;
        }
        if self.deadline_ms.is_some_and(|ms| !JobPolicy::DEADLINE_MS.contains(&ms)) {
            return Err(BadSpec::at("deadline_ms", "must be between 1000 and 2592000000 (30 days)"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json, to_value};

    use super::*;

    fn refused(value: Value) -> String {
        match from_value::<StartSpec>(value) {
            Err(error) => error.to_string(),
            Ok(start) => start.check().expect_err("it is refused").to_string(),
        }
    }

    #[test]
    fn what_starts_reads_back_as_it_was_written() {
        for value in [
            json!({"type": "echo"}),
            json!({"type": "echo", "payload": {"a": [1, null]}, "lane": "low", "priority": 5, "labels": {"gpu": "yes"}}),
            json!({"command": "restart", "selector": "role=web", "params": {"unit": "nginx"}}),
            json!({"command": {"name": "restart", "version": 3}, "hosts": ["web1"], "deadline_ms": 60000}),
            json!({"workflow": "release", "input": {"version": "1.2"}}),
            json!({"blueprint": "order", "data": {"price": 20}}),
        ] {
            let start: StartSpec = from_value(value.clone()).expect("it is good");
            start.check().expect("its parts fit");
            assert_eq!(to_value(&start).expect("JSON"), value);
        }
    }

    #[test]
    fn what_cannot_start_is_refused_by_name() {
        for (value, says) in [
            (json!({}), "type: a job needs"),
            (json!([]), "expected an object"),
            (json!({"type": "echo", "hosts": ["a"]}), "hosts: belongs to a job with a `command`"),
            (json!({"type": "echo", "command": "restart"}), "type: a job has"),
            (json!({"type": "echo", "run_at": "2026-01-01T00:00:00Z"}), "run_at: belongs to one job"),
            (json!({"type": "echo", "idempotency_key": "k"}), "idempotency_key: belongs to one job"),
            (json!({"type": "echo", "priority": 101}), "priority: must be"),
            (json!({"type": "bowline.command"}), "type: those that begin with"),
            (json!({"type": "echo", "prio": 1}), "unknown field `prio`"),
            (json!({"command": "restart"}), "hosts: a command needs hosts"),
            (json!({"command": "restart", "hosts": []}), "hosts: an empty list"),
            (json!({"command": "restart", "hosts": ["a"], "selector": "all"}), "selector: give hosts or"),
            (json!({"command": "restart", "selector": "role=("}), "selector: "),
            (json!({"command": {"argv": []}, "selector": "all"}), "command."),
            (json!({"command": "restart", "selector": "all", "deadline_ms": 1}), "deadline_ms: must be"),
            (json!({"workflow": "release", "type": "echo"}), "type: a job has a `type` or a `workflow`"),
            (json!({"blueprint": "order", "type": "echo"}), "type: a job has a `type` or a `blueprint`"),
            (json!({"workflow": "release", "payload": 1}), "payload: belongs to a job with a `type`"),
            (json!({"workflow": "release", "data": 1}), "data: belongs to a job with a `blueprint`"),
            (json!({"workflow": {"nodes": [], "edges": []}}), "workflow: the name of a workflow"),
        ] {
            let said = refused(value.clone());
            assert!(said.contains(says), "{value}: {said}");
        }
    }

    #[test]
    fn a_payload_is_kept_to_the_letter() {
        let text = r#"{"type":"echo","payload":{ "b": 1.50, "a": "\u00e9" }}"#;
        let start: StartSpec = serde_json::from_str(text).expect("it is good");
        let StartSpec::Task(task) = &start else { panic!("a task") };
        assert_eq!(task.payload.as_ref().expect("a payload").as_str(), r#"{ "b": 1.50, "a": "\u00e9" }"#);
    }
}
