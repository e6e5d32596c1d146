//! A wish as people write it: flat, with every field that any sort of job can have.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{CommandField, CommandStart, Payload, RunField, StartSpec, TaskStart, WorkflowStart};
use crate::blueprint::BlueprintField;
use crate::fleet::Rollout;
use crate::host::{HostRef, Vars};
use crate::job::JobPolicy;
use crate::lane::Lane;
use crate::name::{InventoryName, Labels, ResourceName, TaskType};
use crate::time::Timestamp;
use crate::workflow::{Breakpoint, WorkflowField};

/// A wish.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitRequest {
    /// What sort of work it is. Workers say which of these they take. This, or `command`, `workflow` or
    /// `blueprint`.
    #[serde(default)]
    pub r#type: Option<TaskType>,
    /// What to work on. Kept exactly as written.
    #[serde(default)]
    pub payload: Option<Payload>,
    #[serde(default)]
    pub lane: Option<Lane>,
    /// Higher goes first within its line.
    #[serde(default)]
    #[schemars(range(min = -100, max = 100))]
    pub priority: i16,
    /// Not before this moment.
    #[serde(default)]
    pub run_at: Option<Timestamp>,
    /// The same key and the same wish give the same job. The header `Idempotency-Key` says the same.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// The caller's own name for the job; unique like a key.
    #[serde(default)]
    pub external_id: Option<String>,
    /// Labels a worker must have. `>=2` as a value asks for at least that much of a resource.
    #[serde(default, deserialize_with = "Labels::deserialize_required")]
    pub labels: Labels,
    #[serde(default, deserialize_with = "crate::shape::maybe_by_name")]
    pub policy: Option<JobPolicy>,
    /// A command to run on hosts: the name of a command type, `{"name", "version"}`, or a command as such a type has it.
    #[serde(default)]
    pub command: Option<CommandField>,
    /// Parameters of the command.
    #[serde(default)]
    pub params: Option<Vars>,
    /// The hosts, by name or by number. These, or `selector`.
    #[serde(default)]
    pub hosts: Option<Vec<HostRef>>,
    /// Which hosts, such as `role=web & site!=fra | db[1:20]`.
    #[serde(default)]
    pub selector: Option<String>,
    /// `main` unless given.
    #[serde(default)]
    pub inventory: Option<InventoryName>,
    /// How the command spreads over its hosts.
    #[serde(default, deserialize_with = "crate::shape::maybe_by_name")]
    pub rollout: Option<Rollout>,
    /// How long all of it may take: for a command from the moment it begins, for work of workers from `run_at` or its
    /// submission, whichever is later.
    #[serde(default)]
    pub deadline_ms: Option<u64>,
    /// A workflow to run: its name, `{"name", "version"}`, or a definition.
    #[serde(default)]
    pub workflow: Option<WorkflowField>,
    /// What a definition in `workflow` or `blueprint` is called, in lists and in `execution.workflow`. `inline` unless given.
    #[serde(default)]
    pub name: Option<ResourceName>,
    /// What the workflow is given: `input` in its expressions.
    #[serde(default)]
    pub input: Option<Payload>,
    /// A blueprint to run: its name, `{"name", "version"}`, or a definition.
    #[serde(default)]
    pub blueprint: Option<BlueprintField>,
    /// What the blueprint begins with: `variables` in its expressions.
    #[serde(default)]
    pub data: Option<Payload>,
    /// Stop the workflow after each node.
    #[serde(default)]
    pub debug: bool,
    /// Nodes before which the workflow stops.
    #[serde(default)]
    pub breakpoints: Vec<Breakpoint>,
}

/// What belongs to one ask alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Asked {
    pub run_at: Option<Timestamp>,
    pub idempotency_key: Option<String>,
    pub external_id: Option<String>,
    /// What a definition that is part of the request is called.
    pub name: Option<ResourceName>,
    pub debug: bool,
    pub breakpoints: Vec<Breakpoint>,
}

/// A field that has no place in this sort of wish, or one that is missing from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct Misplaced {
    pub field: &'static str,
    pub why: &'static str,
}

const TASK: &str = "belongs to a job with a `type`";
const COMMAND: &str = "belongs to a job with a `command`";
const WORKFLOW: &str = "belongs to a job with a `workflow`";
const BLUEPRINT: &str = "belongs to a job with a `blueprint`";

const DEFINITION: &str = "belongs to a job with a definition in `workflow` or `blueprint`";

impl SubmitRequest {
    /// Whether a definition is part of it.
    const fn has_definition(&self) -> bool {
        matches!(self.workflow, Some(WorkflowField::Inline(_)))
            || matches!(self.blueprint, Some(BlueprintField::Inline(_)))
    }

    /// The first field that means nothing for the sort of job this is.
    fn misplaced(&self) -> Option<Misplaced> {
        let (command, blueprint) = (self.command.is_some(), self.blueprint.is_some());
        let workflow = self.workflow.is_some() || blueprint;
        let task = !command && !workflow;
        let given = [
            ("type", self.r#type.is_some() && command, "a job has a `type` or a `command`, not both"),
            ("type", self.r#type.is_some() && blueprint, "a job has a `type` or a `blueprint`, not both"),
            ("type", self.r#type.is_some() && workflow, "a job has a `type` or a `workflow`, not both"),
            ("workflow", self.workflow.is_some() && command, "a job has a `workflow` or a `command`, not both"),
            ("blueprint", blueprint && command, "a job has a `blueprint` or a `command`, not both"),
            ("blueprint", blueprint && self.workflow.is_some(), "a job has a `workflow` or a `blueprint`, not both"),
            ("payload", self.payload.is_some() && !task, TASK),
            ("labels", !self.labels.is_empty() && !task, TASK),
            ("policy", self.policy.is_some() && !task, TASK),
            ("params", self.params.is_some() && !command, COMMAND),
            ("hosts", self.hosts.is_some() && !command, COMMAND),
            ("selector", self.selector.is_some() && !command, COMMAND),
            ("inventory", self.inventory.is_some() && !command, COMMAND),
            ("rollout", self.rollout.is_some() && !command, COMMAND),
            ("deadline_ms", self.deadline_ms.is_some() && workflow, "belongs to a job with a `type` or a `command`"),
            (
                "deadline_ms",
                self.deadline_ms.is_some() && self.policy.as_ref().is_some_and(|policy| policy.deadline_ms.is_some()),
                "`policy` says it already",
            ),
            ("name", self.name.is_some() && !self.has_definition(), DEFINITION),
            ("input", self.input.is_some() && !workflow, WORKFLOW),
            ("data", self.data.is_some() && !blueprint, BLUEPRINT),
            ("input", self.input.is_some() && self.data.is_some(), "`data` says it already"),
            ("debug", self.debug && !workflow, WORKFLOW),
            ("breakpoints", !self.breakpoints.is_empty() && !workflow, WORKFLOW),
        ];
        given.into_iter().find(|(_, there, _)| *there).map(|(field, _, why)| Misplaced { field, why })
    }

    /// What is to be started, and what belongs to this one ask.
    pub fn split(self) -> Result<(StartSpec, Asked), Misplaced> {
        if let Some(misplaced) = self.misplaced() {
            return Err(misplaced);
        }
        let asked = Asked {
            run_at: self.run_at,
            idempotency_key: self.idempotency_key,
            external_id: self.external_id,
            name: self.name,
            debug: self.debug,
            breakpoints: self.breakpoints,
        };
        let start = if let Some(command) = self.command {
            StartSpec::Command(Box::new(CommandStart {
                command,
                params: self.params.unwrap_or_default(),
                hosts: self.hosts,
                selector: self.selector,
                inventory: self.inventory,
                rollout: self.rollout,
                deadline_ms: self.deadline_ms,
                lane: self.lane,
                priority: self.priority,
            }))
        } else if let Some(run) = self.workflow.map(RunField::Workflow).or(self.blueprint.map(RunField::Blueprint)) {
            let (input, data) = match run {
                RunField::Workflow(_) => (self.input, None),
                RunField::Blueprint(_) => (None, self.data.or(self.input)),
            };
            StartSpec::Workflow(Box::new(WorkflowStart { run, input, data, lane: self.lane, priority: self.priority }))
        } else if let Some(task_type) = self.r#type {
            StartSpec::Task(TaskStart {
                r#type: task_type,
                payload: self.payload,
                lane: self.lane,
                priority: self.priority,
                labels: self.labels,
                policy: match self.deadline_ms {
                    None => self.policy,
                    deadline_ms => Some(JobPolicy { deadline_ms, ..self.policy.unwrap_or_default() }),
                },
            })
        } else {
            return Err(Misplaced {
                field: "type",
                why: "a job needs a `type`, a `command` and its hosts, a `workflow`, or a `blueprint`",
            });
        };
        Ok((start, asked))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn split(request: Value) -> Result<(StartSpec, Asked), Misplaced> {
        serde_json::from_value::<SubmitRequest>(request).expect("its fields can be read").split()
    }

    /// The same request with more fields.
    fn with(mut request: Value, more: &Value) -> Value {
        let fields = request.as_object_mut().expect("an object");
        fields.extend(more.as_object().expect("an object").clone());
        request
    }

    #[test]
    fn each_field_belongs_to_some_sorts_of_jobs_and_is_refused_in_the_others() {
        let sorts = [
            ("task", json!({"type": "echo"})),
            ("command", json!({"command": "restart"})),
            ("workflow", json!({"workflow": "release"})),
            ("blueprint", json!({"blueprint": "order"})),
        ];
        let all = "task command workflow blueprint";
        for (field, at_home) in [
            (json!({"payload": 1}), "task"),
            (json!({"labels": {"gpu": "yes"}}), "task"),
            (json!({"policy": {}}), "task"),
            (json!({"params": {}}), "command"),
            (json!({"hosts": ["web1"]}), "command"),
            (json!({"selector": "all"}), "command"),
            (json!({"inventory": "main"}), "command"),
            (json!({"rollout": {}}), "command"),
            (json!({"deadline_ms": 60_000}), "task command"),
            (json!({"input": 1}), "workflow blueprint"),
            (json!({"data": 1}), "blueprint"),
            (json!({"debug": true}), "workflow blueprint"),
            (json!({"breakpoints": [{"node": "a"}]}), "workflow blueprint"),
            (json!({"name": "mine"}), "none without a definition"),
            (json!({"run_at": "2030-01-01T00:00:00Z"}), all),
            (json!({"idempotency_key": "k"}), all),
            (json!({"external_id": "x"}), all),
            (json!({"lane": "low"}), all),
            (json!({"priority": 5}), all),
        ] {
            let name = field.as_object().and_then(|fields| fields.keys().next()).expect("a field").as_str();
            for (sort, request) in &sorts {
                let refused = split(with(request.clone(), &field)).err().map(|misplaced| misplaced.field);
                let at_home = at_home.split(' ').any(|home| home == *sort);
                assert_eq!(refused, (!at_home).then_some(name), "{name} of a {sort}");
            }
        }
    }

    #[test]
    fn a_job_is_of_one_sort_and_says_each_thing_once() {
        for (request, field) in [
            (json!({}), "type"),
            (json!({"type": "echo", "command": "restart"}), "type"),
            (json!({"type": "echo", "workflow": "release"}), "type"),
            (json!({"type": "echo", "blueprint": "order"}), "type"),
            (json!({"command": "restart", "workflow": "release"}), "workflow"),
            (json!({"command": "restart", "blueprint": "order"}), "blueprint"),
            (json!({"workflow": "release", "blueprint": "order"}), "blueprint"),
            (json!({"type": "echo", "deadline_ms": 1_000, "policy": {"deadline_ms": 1_000}}), "deadline_ms"),
            (json!({"blueprint": "order", "input": 1, "data": 1}), "input"),
        ] {
            let answer = split(request.clone()).map(drop).map_err(|misplaced| misplaced.field);
            assert_eq!(answer, Err(field), "{request}");
        }
    }

    #[test]
    fn a_definition_that_is_part_of_a_request_may_have_a_name() {
        let workflow = json!({"workflow": {"nodes": [], "edges": []}});
        let blueprint = json!({"blueprint": {"start": "a", "states": {}}});
        for definition in [workflow, blueprint] {
            let (_, asked) = split(with(definition, &json!({"name": "mine", "debug": true}))).expect("it is good");
            assert_eq!((asked.name.as_ref().map(ResourceName::as_str), asked.debug), (Some("mine"), true));
        }
    }

    #[test]
    fn a_task_may_ask_for_amounts() {
        let labels = json!({"gpu": ">= 2", "site": "fra"});
        let (start, _) = split(json!({"type": "echo", "labels": labels})).expect("it is good");
        let StartSpec::Task(task) = start else { panic!("a task") };
        assert_eq!(task.labels.canonical(), "gpu=>=2 site=fra");
    }

    #[test]
    fn a_deadline_becomes_a_part_of_the_policy() {
        let policy = |request: Value| match split(request).expect("it is good").0 {
            StartSpec::Task(task) => task.policy.map(|policy| (policy.timeout_ms, policy.deadline_ms)),
            other => panic!("{other:?}"),
        };
        let both = policy(json!({"type": "echo", "deadline_ms": 60_000, "policy": {"timeout_ms": 5_000}}));
        assert_eq!(both, Some((5_000, Some(60_000))));
        let alone = policy(json!({"type": "echo", "deadline_ms": 60_000}));
        assert_eq!(alone, Some((JobPolicy::TIMEOUT_DEFAULT_MS, Some(60_000))));
        assert_eq!(policy(json!({"type": "echo", "policy": {"timeout_ms": 5_000}})), Some((5_000, None)));
        assert_eq!(policy(json!({"type": "echo"})), None);
    }

    #[test]
    fn a_blueprint_begins_with_its_data_or_with_its_input() {
        let given = |request: Value| match split(request).expect("it is good").0 {
            StartSpec::Workflow(start) => {
                let given = start.given().map(|given| given.as_str().to_owned()).unwrap_or_default();
                format!("{} {} {given}", start.run_field(), start.given_field())
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(given(json!({"workflow": "release", "input": 1})), "workflow input 1");
        assert_eq!(given(json!({"blueprint": "order", "data": 2})), "blueprint data 2");
        assert_eq!(given(json!({"blueprint": "order", "input": 3})), "blueprint data 3");
        assert_eq!(given(json!({"blueprint": "order"})), "blueprint data ");
    }
}
