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
