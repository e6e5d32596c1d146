//! Resources: what somebody wrote is checked whole before a version is made of it.

use std::collections::HashSet;
use std::sync::Arc;

use bowline_model::audit::Author;
use bowline_model::fleet::CommandSpec;
use bowline_model::resource::{BadSpec, ResourceKind, Spec};
use bowline_model::{ResourceName, TenantId};
use bowline_store::{Ledger, ResourceKey, ResourcePut, ResourceStored, StoreError};
use bowline_workflow::program::DefinitionMistake;

use super::params::check_schema;
use crate::checks::Checks;
use crate::fleet::CommandError;
use crate::flow::{Definition, DefinitionError, compile_definition};
use crate::secrets::Secrets;
use crate::starter::{StartError, Starter};

/// Triggers that a tenant may have, also those that are not active.
const TRIGGERS_MAX: u32 = 200;

/// Why a resource was not stored.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    #[error(transparent)]
    Bad(#[from] BadSpec),
    #[error("somebody stored version {latest} meanwhile")]
    Overtaken { latest: u32 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What can be said about a command type without anything else.
pub(super) async fn check_command_spec(tenant: TenantId, spec: &CommandSpec) -> Result<(), BadSpec> {
    spec.check()?;
    match &spec.params {
        Some(schema) => check_schema(tenant, "params", schema).await,
        None => Ok(()),
    }
}

/// Whether a definition could run. Everything that is wrong is said at once.
async fn check_definition(tenant: TenantId, definition: Definition) -> Result<Result<(), BadSpec>, StoreError> {
    match compile_definition(tenant, definition).await {
        Ok(_) => Ok(Ok(())),
        Err(DefinitionError::Mistakes(mistakes)) => Ok(several(mistakes)),
        Err(DefinitionError::Store(error)) => Err(error),
        // What is compiled names nothing that could be missing.
        Err(other) => Ok(Err(BadSpec::at("spec", other.to_string()))),
    }
}

fn several(mistakes: Vec<DefinitionMistake>) -> Result<(), BadSpec> {
    BadSpec::several(mistakes.into_iter().map(|mistake| BadSpec::at(mistake.path, mistake.what)))
}

/// What two looks at the same thing found.
fn together(one: Result<(), BadSpec>, other: Result<(), BadSpec>) -> Result<(), BadSpec> {
    let all = |found: Result<(), BadSpec>| {
        found.err().into_iter().flat_map(|mut first| {
            let others = std::mem::take(&mut first.others);
            std::iter::once(first).chain(others)
        })
    };
    BadSpec::several(all(one).chain(all(other)))
}

/// The door for resources.
#[derive(Debug)]
pub struct Resources {
    ledger: Arc<dyn Ledger>,
    secrets: Arc<Secrets>,
    starter: Arc<Starter>,
    checks: Arc<Checks>,
}

impl Resources {
    pub const fn new(
        ledger: Arc<dyn Ledger>,
        secrets: Arc<Secrets>,
        starter: Arc<Starter>,
        checks: Arc<Checks>,
    ) -> Self {
        Self { ledger, secrets, starter, checks }
    }

    /// Whether the tenant could store a resource that says this, as far as it can be seen from the resource alone.
    pub async fn check_alone(&self, tenant: TenantId, spec: &Spec) -> Result<(), PutError> {
        if !matches!(spec, Spec::Workflow(_) | Spec::Blueprint(_)) {
            spec.check()?;
        }
        match spec {
            Spec::Command(command) => Ok(check_command_spec(tenant, command).await?),
            // Whether its password can be had is seen when it is used, as for commands.
            Spec::Rabbitmq(_) => Ok(()),
            Spec::SecretRef(reference) => Ok(self.secrets.check_ref(tenant, reference).await??),
            Spec::Workflow(workflow) => {
                let definition = Definition::Workflow(workflow.clone());
                together(workflow.check(), check_definition(tenant, definition).await?)?;
                Ok(several(self.checks.workflow(tenant, workflow).await?)?)
            }
            Spec::Blueprint(blueprint) => {
                let definition = Definition::Blueprint(blueprint.clone());
                together(blueprint.check(), check_definition(tenant, definition).await?)?;
                Ok(several(self.checks.blueprint(tenant, blueprint).await?)?)
            }
            Spec::Schedule(_) | Spec::Trigger(_) => Ok(()),
        }
    }

    /// Whether the tenant could store a resource that says this. What it names must be there, or come with it.
    pub async fn check(
        &self,
        tenant: TenantId,
        name: &ResourceName,
        spec: &Spec,
        with: &[ResourceKey],
    ) -> Result<(), PutError> {
        self.check_alone(tenant, spec).await?;
        let startable = match spec {
            Spec::Schedule(schedule) => self.starter.check_whole(tenant, &schedule.start).await,
            Spec::Trigger(trigger) => {
                self.check_count(tenant, name, with).await?;
                self.check_broker(tenant, &trigger.rabbitmq.broker, with).await?;
                // Its parameters come with the message.
                self.starter.check(tenant, &trigger.start).await
            }
            _ => return Ok(()),
        };
        match startable {
            Ok(()) => Ok(()),
            Err(error) if comes_with(&error, with) => Ok(()),
            Err(error) => Err(not_startable(error)),
        }
    }

    /// Whether the tenant may have one more trigger: each that is active is a connection and a queue that is read.
    async fn check_count(&self, tenant: TenantId, name: &ResourceName, with: &[ResourceKey]) -> Result<(), PutError> {
        let there = self.ledger.list_resources(tenant, ResourceKind::Trigger, None, TRIGGERS_MAX).await?;
        let there: HashSet<&ResourceName> = there.items.iter().map(|record| &record.name).collect();
        if there.contains(name) {
            return Ok(());
        }
        let come = with.iter().filter(|key| key.kind == ResourceKind::Trigger).map(|key| &key.name).chain([name]);
        let more: HashSet<&ResourceName> = come.filter(|name| !there.contains(name)).collect();
        if there.len() + more.len() > TRIGGERS_MAX as usize {
            let what = format!(
                "a tenant has at most {TRIGGERS_MAX} triggers, and this one has {}; delete some, or let one trigger start what \
                 several do",
                there.len()
            );
            return Err(BadSpec::at("spec", what).into());
        }
        Ok(())
    }

    /// Whether a trigger's broker is there, or comes with it.
    async fn check_broker(
        &self,
        tenant: TenantId,
        broker: &ResourceName,
        with: &[ResourceKey],
    ) -> Result<(), PutError> {
        let key = ResourceKey { tenant, kind: ResourceKind::Rabbitmq, name: broker.clone() };
        if with.contains(&key) {
            return Ok(());
        }
        match self.ledger.find_resource(key, None).await? {
            None => Err(BadSpec::at("rabbitmq.broker", format!("there is no rabbitmq {broker}")).into()),
            Some(found) if found.active.is_none() => {
                let what = format!("no version of rabbitmq {broker} is active");
                Err(BadSpec::at("rabbitmq.broker", what).into())
            }
            Some(_) => Ok(()),
        }
    }

    /// Stores a version. `seen` is the latest version the writer knows, if that matters to them.
    #[expect(clippy::too_many_arguments, reason = "each says something of its own")]
    pub async fn put(
        &self,
        tenant: TenantId,
        name: ResourceName,
        spec: &Spec,
        note: Option<String>,
        by: Author,
        activate: bool,
        seen: Option<u32>,
    ) -> Result<ResourceStored, PutError> {
        let key = ResourceKey { tenant, kind: spec.kind(), name };
        let put = ResourcePut { key, spec: spec.canonical().into(), note, source: None, by, activate, seen };
        self.store(spec, put).await
    }

    /// Stores a version that says `spec`.
    pub async fn store(&self, spec: &Spec, put: ResourcePut) -> Result<ResourceStored, PutError> {
        self.check(put.key.tenant, &put.key.name, spec, &[]).await?;
        match self.ledger.put_resource(put).await? {
            ResourceStored::Overtaken { latest } => Err(PutError::Overtaken { latest }),
            stored => Ok(stored),
        }
    }
}

/// What is missed is among what is stored together with this. Parameters are looked at later.
fn comes_with(error: &StartError, with: &[ResourceKey]) -> bool {
    let (kind, name) = match error {
        StartError::Command(CommandError::NoCommand(name) | CommandError::NotActive(name)) => {
            (ResourceKind::Command, name.as_str())
        }
        StartError::Workflow(DefinitionError::NoWorkflow(name) | DefinitionError::NotActive(name)) => {
            (ResourceKind::Workflow, name.as_str())
        }
        StartError::Workflow(DefinitionError::NoBlueprint(name) | DefinitionError::BlueprintNotActive(name)) => {
            (ResourceKind::Blueprint, name.as_str())
        }
        _ => return false,
    };
    with.iter().any(|key| key.kind == kind && key.name.as_str() == name)
}

/// Why a schedule or a trigger cannot be stored, and where in it that stands.
fn not_startable(error: StartError) -> PutError {
    let place = match &error {
        StartError::Store(error)
        | StartError::Command(CommandError::Store(error))
        | StartError::Workflow(DefinitionError::Store(error)) => {
            return PutError::Store(error.clone());
        }
        StartError::Bad(bad) => return BadSpec { path: format!("start.{}", bad.path), ..bad.clone() }.into(),
        StartError::Workflow(
            DefinitionError::NoBlueprint(_)
            | DefinitionError::NoBlueprintVersion { .. }
            | DefinitionError::BlueprintNotActive(_),
        ) => "start.blueprint",
        StartError::Workflow(_) => "start.workflow",
        StartError::Command(CommandError::Params(_)) => "start.params",
        StartError::Command(_) => "start.command",
        StartError::Patch(_) | StartError::Key { .. } => "start",
    };
    BadSpec::at(place, error.to_string()).into()
}
