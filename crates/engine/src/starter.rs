//! The starter: makes a job of what a schedule, or whoever else starts things without a person, wants started.
//!
//! Enters: a [`StartSpec`], and what differs from one start to the next. Leaves: a job, stored or ready to be. What is wrong is
//! told apart by whether asking again later could help.

use std::sync::Arc;

use bowline_model::host::Vars;
use bowline_model::idempotency::{KeyScope, RequestHash};
use bowline_model::resource::BadSpec;
use bowline_model::start::{CommandField, CommandStart, Payload, RunField, StartSpec, TaskStart, VersionedName};
use bowline_model::{InventoryName, JobPolicy, TenantId};
use bowline_store::{NewJob, Origin, StoreError, Submitted};
use serde_json::Value;

use crate::checks::Checks;
use crate::fleet::{CommandChoice, CommandError, CommandRequest, Commands, HostChoice, Inventories};
use crate::flow::{DefinitionError, DefinitionKind, Flows};
use crate::intake::{Intake, JobRequest};

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Bad(#[from] BadSpec),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Workflow(#[from] DefinitionError),
    #[error("{0}: only an object can be added to, and only with an object")]
    Patch(&'static str),
    #[error("the key {key:?} was used before with another body")]
    Key { key: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl StartError {
    /// What the ledger said, where that is why. Asking again later may help then, and only then.
    pub const fn store(&self) -> Option<&StoreError> {
        match self {
            Self::Store(error)
            | Self::Command(CommandError::Store(error))
            | Self::Workflow(DefinitionError::Store(error)) => Some(error),
            _ => None,
        }
    }
}

/// Under which name something is asked for, and what makes two asks the same.
#[derive(Debug, Clone)]
pub struct Ask {
    pub scope: KeyScope,
    pub key: String,
    pub hash: RequestHash,
}

/// Starts things.
#[derive(Debug)]
pub struct Starter {
    intake: Arc<Intake>,
    commands: Arc<Commands>,
    inventories: Arc<Inventories>,
    flows: Arc<Flows>,
    checks: Arc<Checks>,
}

impl Starter {
    pub const fn new(
        intake: Arc<Intake>,
        commands: Arc<Commands>,
        inventories: Arc<Inventories>,
        flows: Arc<Flows>,
        checks: Arc<Checks>,
    ) -> Self {
        Self { intake, commands, inventories, flows, checks }
    }

    /// Whether what is named exists. Everything else is found out when it is started: hosts come and go.
    pub async fn check(&self, tenant: TenantId, start: &StartSpec) -> Result<(), StartError> {
        start.check()?;
        match start {
            StartSpec::Task(_) => Ok(()),
            StartSpec::Command(command) => Ok(self.commands.check(tenant, &choice_of(&command.command)).await?),
            StartSpec::Workflow(workflow) => {
                let (name, version) = workflow.stored()?;
                Ok(self.flows.definitions.named(tenant, kind_of(&workflow.run), name, version).await.map(drop)?)
            }
        }
    }

    /// The same, for what is started as it stands: its parameters must fit, too, and a payload must be one that can be worked
    /// on.
    pub async fn check_whole(&self, tenant: TenantId, start: &StartSpec) -> Result<(), StartError> {
        self.check(tenant, start).await?;
        match start {
            StartSpec::Command(command) => {
                let choice = choice_of(&command.command);
                Ok(self.commands.check_params(tenant, &choice, command.params.clone()).await?)
            }
            StartSpec::Task(task) => {
                let payload = task.payload.as_ref().map_or("null", Payload::as_str);
                self.checks.task(tenant, &task.r#type, payload).await?.map_err(|bad| BadSpec::from(bad).into())
            }
            StartSpec::Workflow(_) => Ok(()),
        }
    }

    /// The job this comes to now, before it has a name or a key.
    pub async fn prepare(
        &self,
        tenant: TenantId,
        start: &StartSpec,
        patch: Option<&Value>,
    ) -> Result<JobRequest, StartError> {
        start.check()?;
        match start {
            StartSpec::Task(task) => task_request(task.clone(), patch),
            StartSpec::Command(command) => {
                let request = patched(command_request((**command).clone()), patch)?;
                Ok(self.commands.prepare(&self.inventories, tenant, request).await?)
            }
            StartSpec::Workflow(workflow) => {
                let (name, version) = workflow.stored()?;
                let mut input = workflow.input_value()?;
                if let Some(patch) = patch {
                    if input.is_null() {
                        input = Vars::new().into();
                    }
                    add(&mut input, patch, workflow.given_field())?;
                }
                let prepared = self.flows.prepare(tenant, kind_of(&workflow.run), name, version, input).await?;
                Ok(JobRequest { lane: workflow.lane.unwrap_or_default(), priority: workflow.priority, ..prepared })
            }
        }
    }

    /// Starts it, once for each key. `patch` is added to what it works on: to the payload of a task, the parameters of a
    /// command, the input of a workflow.
    pub async fn start(
        &self,
        tenant: TenantId,
        start: &StartSpec,
        key: String,
        origin: &Origin,
        patch: Option<&Value>,
    ) -> Result<Submitted, StartError> {
        if let StartSpec::Command(command) = start {
            command.check()?;
            // A second ask is answered also when its command could not be resolved any more.
            let request = patched(command_request((**command).clone()), patch)?;
            let request = CommandRequest { idempotency_key: Some(key), ..request };
            return Ok(self.commands.submit(&self.intake, &self.inventories, tenant, origin, request).await?);
        }
        let request = self.prepare(tenant, start, patch).await?;
        let request = JobRequest { idempotency_key: Some(key), ..request };
        match self.intake.submit(tenant, origin, vec![request]).await?.into_iter().next() {
            Some(Submitted::Conflict { key, .. }) => Err(StartError::Key { key }),
            Some(stored) => Ok(stored),
            None => Err(StoreError::Broken("the ledger gave no answer".to_owned()).into()),
        }
    }

    /// Starts it once for each ask, where whoever asks says which asks are the same. The second one is answered whatever
    /// would come of it by then, also if nothing could be started any more.
    pub async fn start_once(
        &self,
        tenant: TenantId,
        start: &StartSpec,
        ask: Ask,
        origin: &Origin,
        patch: Option<&Value>,
    ) -> Result<Submitted, StartError> {
        let Ask { scope, key, hash } = ask;
        let known = match self.prepare(tenant, start, patch).await {
            Ok(request) => {
                let job = self.intake.name_one(tenant, origin, request);
                let job = NewJob { keys: vec![(scope, key)], hash, ..job };
                self.intake.store(vec![job]).await?.into_iter().next()
            }
            Err(error) if error.store().is_some() => return Err(error),
            Err(error) => match self.intake.find_asked(tenant, scope, key, hash).await? {
                None => return Err(error),
                known => known,
            },
        };
        match known {
            Some(Submitted::Conflict { key, .. }) => Err(StartError::Key { key }),
            Some(stored) => Ok(stored),
            None => Err(StoreError::Broken("the ledger gave no answer".to_owned()).into()),
        }
    }
}

/// A task as somebody asks for it.
impl From<TaskStart> for JobRequest {
    fn from(task: TaskStart) -> Self {
        Self {
            id: None,
            flow: None,
            fleet: None,
            lane: task.lane.unwrap_or_default(),
            task_type: task.r#type,
            labels: task.labels,
            priority: task.priority,
            payload: task.payload.map_or_else(|| "null".into(), |payload| payload.to_arc()),
            policy: task.policy.filter(|policy| *policy != JobPolicy::default()).map(Arc::new),
            run_at: None,
            idempotency_key: None,
            external_id: None,
        }
    }
}

fn task_request(mut task: TaskStart, patch: Option<&Value>) -> Result<JobRequest, StartError> {
    if let Some(patch) = patch {
        let payload = task.payload.as_ref().and_then(|payload| serde_json::from_str(payload.as_str()).ok());
        let mut payload = payload.filter(|value: &Value| !value.is_null()).unwrap_or_else(|| Vars::new().into());
        add(&mut payload, patch, "payload")?;
        task.payload = Some(Payload::from(&payload));
    }
    Ok(task.into())
}

fn patched(mut request: CommandRequest, patch: Option<&Value>) -> Result<CommandRequest, StartError> {
    if let Some(patch) = patch {
        let mut params = Value::Object(request.params);
        add(&mut params, patch, "params")?;
        request.params = match params {
            Value::Object(params) => params,
            _ => return Err(StartError::Patch("params")),
        };
    }
    Ok(request)
}

/// Adds the fields of an object to those of another one; `null` takes a field away.
fn add(to: &mut Value, patch: &Value, what: &'static str) -> Result<(), StartError> {
    let (Value::Object(fields), Value::Object(patch)) = (to, patch) else { return Err(StartError::Patch(what)) };
    for (name, value) in patch {
        match (fields.get_mut(name), value) {
            (_, Value::Null) => drop(fields.remove(name)),
            (Some(inner @ Value::Object(_)), Value::Object(_)) => add(inner, value, what)?,
            (_, value) => drop(fields.insert(name.clone(), value.clone())),
        }
    }
    Ok(())
}

const fn kind_of(run: &RunField) -> DefinitionKind {
    match run {
        RunField::Workflow(_) => DefinitionKind::Workflow,
        RunField::Blueprint(_) => DefinitionKind::Blueprint,
    }
}

fn choice_of(command: &CommandField) -> CommandChoice {
    match command.clone() {
        CommandField::Name(name) => CommandChoice::Named { name, version: None },
        CommandField::Version(VersionedName { name, version }) => CommandChoice::Named { name, version },
        CommandField::Inline(spec) => CommandChoice::Inline(spec),
    }
}

/// A command as somebody asks for it. That it has hosts or a selector was checked before.
pub fn command_request(command: CommandStart) -> CommandRequest {
    let hosts = match (command.hosts, command.selector) {
        (Some(hosts), _) => HostChoice::Named(hosts),
        (None, text) => HostChoice::Selector(text.unwrap_or_default()),
    };
    CommandRequest {
        command: choice_of(&command.command),
        params: command.params,
        inventory: command
            .inventory
            .unwrap_or_else(|| InventoryName::new("main").expect("the name of the first inventory is a name")),
        hosts,
        rollout: command.rollout.unwrap_or_default(),
        deadline_ms: command.deadline_ms,
        lane: command.lane.unwrap_or_default(),
        priority: command.priority,
        run_at: None,
        idempotency_key: None,
        external_id: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_adds_changes_and_takes_away() {
        let mut value = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": [1]});
        add(&mut value, &json!({"a": null, "b": {"c": 5}, "e": [2], "f": "new"}), "payload").expect("objects");
        assert_eq!(value, json!({"b": {"c": 5, "d": 3}, "e": [2], "f": "new"}));
        assert!(add(&mut json!([1]), &json!({}), "payload").is_err());
        assert!(add(&mut json!({}), &json!(1), "payload").is_err());
    }

    #[test]
    fn a_task_without_a_payload_gets_the_patch() {
        let StartSpec::Task(task) = serde_json::from_value(json!({"type": "echo"})).expect("good") else {
            panic!("a task");
        };
        let request = task_request(task, Some(&json!({"id": 7}))).expect("objects");
        assert_eq!(&*request.payload, r#"{"id":7}"#);
    }
}
