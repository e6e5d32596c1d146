//! Where a person's yes could be put in place of the person's.
//!
//! Whoever says what a node gives, or goes on from behind it, decides what it would have decided. If the node asks somebody,
//! that is a decision, and needs the right to decide. What a node asks is read from the definition: its own question, that of
//! a handler that may want one, that of another definition that it runs.

use std::collections::HashSet;

use bowline_model::blueprint::{Action, BlueprintSpec, HandlerAnswer, StateSpec};
use bowline_model::resource::ResourceKind;
use bowline_model::workflow::{NodeSpec, WorkflowSpec};
use bowline_model::{JobId, ResourceName, TenantId};
use bowline_store::StoreResult;
use bowline_workflow::expression::Context;
use serde_json::{Map, Value, json};

use super::Flows;
use super::calls::DEPTH_MAX;
use super::definitions::{Definition, DefinitionError, DefinitionKind};
use super::look::LookError;

/// Definitions that are read to find out whether one of them asks somebody.
const DEFINITIONS_MAX: usize = 200;

/// A definition that another one runs.
type Child = (DefinitionKind, ResourceName, Option<u32>);

/// What one place of a definition may ask.
enum Asks {
    Nobody,
    Somebody,
    /// Whatever this one asks.
    As(Child),
    /// It cannot be told, so it may.
    Unknown,
}

impl Flows {
    /// Whether people are asked anywhere in this execution, in one that it starts, or in one that it was started by.
    ///
    /// Where that is so, every change by hand is part of what they decide about: a pinned condition leads past a question, a
    /// pin or a variable behind it changes what follows from their yes, and an execution that was started after a yes does
    /// what it was said of.
    pub async fn asks_people(&self, tenant: TenantId, job: JobId) -> Result<bool, LookError> {
        let mut next = Some(job);
        for _ in 0..=DEPTH_MAX {
            let Some(job) = next else { return Ok(false) };
            let asks = match self.definition_of(tenant, job).await? {
                Definition::Workflow(spec) => of_workflow(&spec),
                Definition::Blueprint(spec) => of_blueprint(&spec),
            };
            if self.any_asks(tenant, asks).await? {
                return Ok(true);
            }
            next = self.ledger.find_flow(tenant, job).await?.and_then(|record| record.parent);
        }
        // Nothing is nested deeper.
        Ok(true)
    }

    /// Whether an approval was given in this execution, in one that it was started by, or in the one that started this job.
    pub async fn was_approved(&self, tenant: TenantId, job: JobId) -> StoreResult<bool> {
        let mut next = match self.ledger.find_flow(tenant, job).await? {
            Some(_) => Some(job),
            None => self.ledger.find_job(tenant, job).await?.and_then(|(record, _)| record.begun_by),
        };
        for _ in 0..=DEPTH_MAX {
            let Some(job) = next else { return Ok(false) };
            let Some(record) = self.ledger.find_flow(tenant, job).await? else { return Ok(false) };
            if record.decisions > 0 {
                return Ok(true);
            }
            next = record.parent;
        }
        Ok(true)
    }

    /// Whether a run that goes on from behind this step goes on with a decision that was taken before it, or with a pin that
    /// could stand in for one.
    pub async fn decided_before(&self, tenant: TenantId, job: JobId, step: u32) -> Result<bool, LookError> {
        let room = self.room(tenant, job, Some(step)).await?;
        let (past, _) = self.past(&room, tenant, job, step).await?;
        let (context, pins) = (past.flow.context(), &past.flow.debug().pins);
        let asked = match self.definition_of(tenant, job).await? {
            Definition::Workflow(spec) => {
                // What is pinned at an approval does not come along. Any other pin may lead past a question.
                let pinned = |node: &NodeSpec| pins.contains_key(&node.id) && node.node_type != "approval";
                if spec.nodes.iter().any(pinned) {
                    of_workflow(&spec)
                } else {
                    let over = |node: &&NodeSpec| context.output(node.id.as_str()).is_some();
                    spec.nodes.iter().filter(over).map(of_node).collect()
                }
            }
            Definition::Blueprint(spec) if !pins.is_empty() => of_blueprint(&spec),
            Definition::Blueprint(spec) => {
                let over = spec.states.iter().filter(|(name, _)| context.output(&format!("{name}.act")).is_some());
                over.flat_map(|(name, state)| of_past_state(name, state, context)).collect()
            }
        };
        self.any_asks(tenant, asked).await
    }

    /// Which sort of resource a run is pinned to a version of.
    pub async fn kind_of(&self, tenant: TenantId, job: JobId) -> Result<ResourceKind, LookError> {
        Ok(match self.definition_of(tenant, job).await? {
            Definition::Workflow(_) => ResourceKind::Workflow,
            Definition::Blueprint(_) => ResourceKind::Blueprint,
        })
    }

    async fn definition_of(&self, tenant: TenantId, job: JobId) -> Result<Definition, LookError> {
        let number = self.ledger.flow_number(tenant, job).await?.ok_or(LookError::NotFound)?;
        let stored = self.ledger.load_flows(vec![number], Some(0)).await?;
        let definition = stored.first().map(|flow| flow.definition).ok_or(LookError::NotFound)?;
        Ok(self.definitions.definition_of_run(definition).await?)
    }

    /// Whether one of these asks somebody, or one of the definitions that they run does.
    async fn any_asks(&self, tenant: TenantId, mut ahead: Vec<Asks>) -> Result<bool, LookError> {
        let mut seen: HashSet<Child> = HashSet::new();
        while let Some(asks) = ahead.pop() {
            let child = match asks {
                Asks::Nobody => continue,
                Asks::Somebody | Asks::Unknown => return Ok(true),
                Asks::As(child) => child,
            };
            if !seen.insert(child.clone()) {
                continue;
            }
            // Nobody waits until thousands of definitions are read. What is behind them may ask somebody.
            if seen.len() > DEFINITIONS_MAX {
                return Ok(true);
            }
            let (kind, name, version) = &child;
            match self.definitions.named(tenant, *kind, name, *version).await {
                Ok(pinned) => match Definition::read(&pinned.kept.body)? {
                    Definition::Workflow(spec) => ahead.extend(of_workflow(&spec)),
                    Definition::Blueprint(spec) => ahead.extend(of_blueprint(&spec)),
                },
                Err(DefinitionError::Store(error)) => return Err(error.into()),
                // It is gone. What it asked when it was there, nobody knows.
                Err(_) => return Ok(true),
            }
        }
        Ok(false)
    }
}

fn of_workflow(spec: &WorkflowSpec) -> Vec<Asks> {
    spec.nodes.iter().map(of_node).collect()
}

fn of_node(node: &NodeSpec) -> Asks {
    match node.node_type.as_str() {
        "approval" => Asks::Somebody,
        "workflow" => of_child(&node.config),
        "foreach" => match (node.config.get("node"), node.config.get("node").and_then(|inner| inner.get("type"))) {
            (Some(inner), Some(Value::String(inner_type))) if inner_type == "workflow" => {
                inner.get("config").and_then(Value::as_object).map_or(Asks::Unknown, of_child)
            }
            _ => Asks::Nobody,
        },
        _ => Asks::Nobody,
    }
}

/// The workflow that a `workflow` node runs.
fn of_child(config: &Map<String, Value>) -> Asks {
    let name = config.get("name").and_then(Value::as_str).and_then(|name| ResourceName::new(name).ok());
    let version = match config.get("version") {
        None | Some(Value::Null) => Some(None),
        Some(version) => version.as_u64().and_then(|version| u32::try_from(version).ok()).map(Some),
    };
    match (name, version) {
        (Some(name), Some(version)) => Asks::As((DefinitionKind::Workflow, name, version)),
        _ => Asks::Unknown,
    }
}

fn of_blueprint(spec: &BlueprintSpec) -> Vec<Asks> {
    spec.states.values().flat_map(of_state).collect()
}

fn of_state(state: &StateSpec) -> Vec<Asks> {
    // A handler says what is done here when it is asked, and that may be a question.
    let handler = state.handler.as_ref().map(|_| Asks::Unknown);
    handler.into_iter().chain(state.actions.iter().map(of_action)).collect()
}

/// The same for a state that is over: what its handler wanted is known.
fn of_past_state(name: &str, state: &StateSpec, context: &Context) -> Vec<Asks> {
    let said = context.output(name).and_then(|output| output.get("actions")).cloned().unwrap_or(json!([]));
    let handler = match HandlerAnswer::read(json!({ "actions": said })) {
        Ok(answer) => answer.actions.iter().map(of_action).collect(),
        Err(_) => vec![Asks::Unknown],
    };
    handler.into_iter().chain(state.actions.iter().map(of_action)).collect()
}

fn of_action(action: &Action) -> Asks {
    match action {
        Action::AwaitApproval(_) => Asks::Somebody,
        Action::RunBlueprint(run) => Asks::As((DefinitionKind::Blueprint, run.blueprint.clone(), run.version)),
        Action::TransitionTo(_)
        | Action::DispatchTask(_)
        | Action::DispatchParallel(_)
        | Action::Sleep(_)
        | Action::Set(_) => Asks::Nobody,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(node_type: &str, config: Value) -> Asks {
        of_node(&serde_json::from_value(json!({"id": "n", "type": node_type, "config": config})).expect("a node"))
    }

    fn is_child(asks: &Asks, name: &str, version: Option<u32>) -> bool {
        let wanted = (DefinitionKind::Workflow, ResourceName::new(name).expect("a name"), version);
        matches!(asks, Asks::As(child) if *child == wanted)
    }

    #[test]
    fn a_node_asks_what_the_workflow_that_it_runs_asks() {
        assert!(matches!(of("approval", json!({"title": "Pay?"})), Asks::Somebody));
        assert!(matches!(of("task", json!({"type": "echo"})), Asks::Nobody));
        assert!(is_child(&of("workflow", json!({"name": "pay"})), "pay", None));
        assert!(is_child(&of("workflow", json!({"name": "pay", "version": 3})), "pay", Some(3)));
        assert!(matches!(of("workflow", json!({"name": "{{ input.name }}"})), Asks::Unknown));
        assert!(matches!(of("workflow", json!({"name": "pay", "version": "{{ input.version }}"})), Asks::Unknown));
        let each = |inner: Value| of("foreach", json!({"items": [1], "node": inner}));
        assert!(is_child(&each(json!({"type": "workflow", "config": {"name": "pay"}})), "pay", None));
        assert!(matches!(each(json!({"type": "workflow"})), Asks::Unknown));
        assert!(matches!(each(json!({"type": "task", "config": {"name": "pay"}})), Asks::Nobody));
    }
}
