//! What follows from a yes names things that others may change: commands, brokers, secrets, other definitions. A question is
//! bound to what those names mean when it is put, and a yes counts only while they mean the same.
//!
//! *Behind a question*: in a workflow every node that a path leads to from there, whoever takes over from errors, and whatever
//! undoes something; in a blueprint all of it, because a handler may lead anywhere. Of a definition that is run as a step all
//! of it is behind the question, too.
//! *Meaning*: of a command, a broker or a definition the version that would be used; of a secret where it is kept, under which
//! name, and its pinned version. Never its value: one that rotates in its place is the same secret.
//!
//! The yes is compared when somebody gives it and when the execution goes on with it: if something has changed, the question is
//! put again. And whatever is started after it is compared once more when it is started, however much later that is, by the
//! execution itself or by one that it started; if it has changed by then, it is not started. What an expression makes of a name
//! is not known before, and not compared.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bowline_model::blueprint::{Action, BlueprintSpec};
use bowline_model::broker::RabbitmqSpec;
use bowline_model::fleet::{CommandSpec, SecretIdentity};
use bowline_model::idempotency::RequestHash;
use bowline_model::resource::ResourceKind;
use bowline_model::secret::SecretRefSpec;
use bowline_model::workflow::{NodeId, WorkflowSpec};
use bowline_model::{ErrorClass, JobId, ResourceName, RunError, TenantId};
use bowline_store::{ResourceKey, ResourceRecord, StoreError, StoreResult};
use bowline_workflow::flow::Launch;
use bowline_workflow::node::CallWhat;
use serde_json::{Map, Value, json};

use super::Flows;
use super::calls::NotMade;
use super::definitions::{Definition, DefinitionError};
use super::look::LookError;
use super::memory::Kept;

/// So many different names may be behind one question.
const NAMES_MAX: usize = 10_000;

/// Something that others may change, by its name; with the version, if that is named as well.
type Name = (ResourceKind, ResourceName, Option<u32>);

/// Names that were found.
#[derive(Debug, Default)]
struct Names(BTreeSet<Name>);

/// What names mean: each with a digest.
pub(super) type Named = BTreeMap<String, String>;

/// All of it in one.
pub(super) fn hash_of_named(named: &Named) -> RequestHash {
    RequestHash::of_parts(&[b"bowline named 1", serde_json::to_string(named).unwrap_or_default().as_bytes()])
}

/// Bytes of a digest. It stands in for something that is known, and need only differ from what else that could be.
const DIGEST_BYTES: usize = 16;

fn digest(meaning: &Value) -> String {
    let whole = RequestHash::of_parts(&[meaning.to_string().as_bytes()]).to_hex();
    whole[..2 * DIGEST_BYTES].to_owned()
}

impl Names {
    fn add(&mut self, kind: ResourceKind, name: Option<&str>, version: Option<u32>) {
        // Whatever has places is no name yet.
        if let Some(name) = name.and_then(|name| ResourceName::new(name).ok()) {
            self.0.insert((kind, name, version));
        }
    }

    fn add_named(&mut self, kind: ResourceKind, named: &Map<String, Value>) {
        let version = named.get("version").and_then(Value::as_u64).and_then(|version| u32::try_from(version).ok());
        self.add(kind, named.get("name").and_then(Value::as_str), version);
    }

    fn of_definition(&mut self, definition: &Definition) {
        match definition {
            Definition::Workflow(spec) => {
                for node in &spec.nodes {
                    self.of_node(&node.node_type, &node.config);
                }
            }
            Definition::Blueprint(spec) => self.of_blueprint(spec),
        }
    }

    fn of_node(&mut self, node_type: &str, config: &Map<String, Value>) {
        match node_type {
            "command" => match config.get("command") {
                Some(Value::String(name)) => self.add(ResourceKind::Command, Some(name), None),
                Some(Value::Object(named)) if named.contains_key("name") => {
                    self.add_named(ResourceKind::Command, named);
                }
                Some(inline) => {
                    if let Ok(spec) = serde_json::from_value::<CommandSpec>(inline.clone()) {
                        self.of_command(&spec);
                    }
                }
                None => {}
            },
            "workflow" => self.add_named(ResourceKind::Workflow, config),
            "task" => {
                let task_type = config.get("type").and_then(Value::as_str).unwrap_or_default();
                self.of_task(task_type, config.get("payload").unwrap_or(&Value::Null));
            }
            "foreach" => {
                let inner = config.get("node").and_then(Value::as_object);
                let inner_type = inner.and_then(|inner| inner.get("type")).and_then(Value::as_str);
                let inner_config = inner.and_then(|inner| inner.get("config")).and_then(Value::as_object);
                if let (Some(inner_type), Some(inner_config)) = (inner_type, inner_config)
                    && inner_type != "foreach"
                {
                    self.of_node(inner_type, inner_config);
                }
            }
            other => {
                for (field, value) in config {
                    self.of_field(other, field, value);
                }
            }
        }
    }

    fn of_call(&mut self, call: &CallWhat) {
        match call {
            CallWhat::Task { task_type, payload, .. } => self.of_task(task_type.as_str(), payload),
            CallWhat::Command(body) => {
                if let Some(body) = body.as_object() {
                    self.of_node("command", body);
                }
            }
            CallWhat::Workflow { name, version, .. } => self.add(ResourceKind::Workflow, Some(name), *version),
            CallWhat::Blueprint { name, version, .. } => self.add(ResourceKind::Blueprint, Some(name), *version),
        }
    }

    /// What the types of tasks that the server does itself are given.
    fn of_task(&mut self, task_type: &str, payload: &Value) {
        for (field, value) in payload.as_object().into_iter().flatten() {
            self.of_field(task_type, field, value);
        }
    }

    fn of_field(&mut self, sort: &str, field: &str, value: &Value) {
        match (sort, field) {
            ("http_request", "headers") => {
                for header in value.as_object().into_iter().flat_map(Map::values) {
                    self.add(ResourceKind::SecretRef, header.get("secret_ref").and_then(Value::as_str), None);
                }
            }
            ("rabbitmq_publish", "broker") => self.add(ResourceKind::Rabbitmq, value.as_str(), None),
            _ => {}
        }
    }

    fn of_command(&mut self, spec: &CommandSpec) {
        for (_, name) in spec.server_secrets() {
            self.add(ResourceKind::SecretRef, Some(name.as_str()), None);
        }
    }

    fn of_blueprint(&mut self, spec: &BlueprintSpec) {
        for action in spec.states.values().flat_map(|state| &state.actions) {
            match action {
                Action::DispatchTask(task) => self.of_task(task.task_type.as_str(), &task.params),
                Action::DispatchParallel(all) => {
                    for task in &all.tasks {
                        self.of_task(task.task_type.as_str(), &task.params);
                    }
                }
                Action::RunBlueprint(run) => {
                    self.add(ResourceKind::Blueprint, Some(run.blueprint.as_str()), run.version);
                }
                Action::TransitionTo(_) | Action::AwaitApproval(_) | Action::Sleep(_) | Action::Set(_) => {}
            }
        }
    }
}

/// What is named behind one node of a definition.
fn behind(definition: &Definition, node: &NodeId) -> Names {
    let mut names = Names::default();
    match definition {
        Definition::Workflow(spec) => {
            let behind = nodes_behind(spec, node);
            for node in spec.nodes.iter().filter(|node| behind.contains(&node.id)) {
                names.of_node(&node.node_type, &node.config);
            }
        }
        Definition::Blueprint(spec) => names.of_blueprint(spec),
    }
    names
}

fn nodes_behind<'a>(spec: &'a WorkflowSpec, node: &'a NodeId) -> BTreeSet<&'a NodeId> {
    let mut targets: HashMap<&NodeId, Vec<&NodeId>> = HashMap::new();
    for edge in &spec.edges {
        targets.entry(&edge.source).or_default().push(&edge.target);
    }
    let mut next: Vec<&NodeId> = vec![node];
    next.extend(&spec.on_error);
    next.extend(spec.nodes.iter().filter_map(|node| node.undo.as_ref()));
    let mut behind = BTreeSet::new();
    while let Some(at) = next.pop() {
        if behind.insert(at) {
            next.extend(targets.get(at).into_iter().flatten());
        }
    }
    behind
}

impl Flows {
    /// The same for an execution by its job.
    pub(super) async fn named_behind_job(
        &self,
        tenant: TenantId,
        job: JobId,
        node: &NodeId,
    ) -> Result<Named, LookError> {
        let number = self.ledger.flow_number(tenant, job).await?.ok_or(LookError::NotFound)?;
        let stored = self.ledger.load_flows(vec![number], Some(0)).await?;
        let definition = stored.first().map(|flow| flow.definition).ok_or(LookError::NotFound)?;
        Ok(self.named_behind(tenant, definition, node).await?)
    }

    /// What the names behind a question mean now.
    pub(super) async fn named_behind(&self, tenant: TenantId, definition: i64, node: &NodeId) -> StoreResult<Named> {
        let definition = self.definitions.definition_of_run(definition).await.map_err(|error| match error {
            DefinitionError::Store(error) => error,
            other => StoreError::Broken(other.to_string()),
        })?;
        self.meanings(tenant, behind(&definition, node)).await
    }

    /// Whether what a node is about to start is what people said yes to, as far as they were asked about it. Returns what of it
    /// was approved, for an execution that starts more later.
    pub(super) async fn check_approved(&self, run: &Kept, launch: &Launch) -> Result<Named, NotMade> {
        let approved = run.flow.approved();
        if approved.is_empty() {
            return Ok(Named::new());
        }
        let mut names = Names::default();
        names.of_call(&launch.call.what);
        let now = self.meanings(run.about.tenant, names).await?;
        let changed = now.iter().find(|(name, meaning)| approved.get(*name).is_some_and(|before| before != *meaning));
        let Some((name, _)) = changed else {
            return Ok(now.into_iter().filter(|(name, _)| approved.contains_key(name)).collect());
        };
        Err(NotMade::Failed(RunError::new(
            ErrorClass::Permanent,
            format!(
                "{name} is not what it was when what follows was approved; fork the execution from before the question, \
                 where people are asked again"
            ),
        )))
    }

    /// What these names mean now, and those that they lead to.
    async fn meanings(&self, tenant: TenantId, mut ahead: Names) -> StoreResult<Named> {
        let mut meanings = Named::new();
        while let Some((kind, name, version)) = ahead.0.pop_last() {
            let written =
                version.map_or_else(|| format!("{kind}/{name}"), |version| format!("{kind}/{name}@{version}"));
            if meanings.contains_key(&written) {
                continue;
            }
            if meanings.len() >= NAMES_MAX {
                return Err(StoreError::Broken(format!("more than {NAMES_MAX} names follow from one question")));
            }
            let key = ResourceKey { tenant, kind, name };
            let found = self.ledger.find_resource(key, version).await?;
            // Without a version, none counts that nobody has activated.
            let found = found.filter(|record| version.is_some() || record.active.is_some());
            let meaning = found.as_ref().map_or(Value::Null, |record| meaning(record, &mut ahead));
            meanings.insert(written, digest(&meaning));
        }
        Ok(meanings)
    }
}

/// What a resource means; what it names itself is looked at, too.
fn meaning(record: &ResourceRecord, ahead: &mut Names) -> Value {
    let spec = &*record.version.spec;
    match record.kind {
        ResourceKind::SecretRef => {
            let spec: Option<SecretRefSpec> = serde_json::from_str(spec).ok();
            return json!(spec.as_ref().map(SecretIdentity::of));
        }
        ResourceKind::Command => {
            if let Ok(spec) = serde_json::from_str::<CommandSpec>(spec) {
                ahead.of_command(&spec);
            }
        }
        ResourceKind::Rabbitmq => {
            if let Ok(spec) = serde_json::from_str::<RabbitmqSpec>(spec) {
                ahead.add(ResourceKind::SecretRef, Some(spec.password.secret_ref.as_str()), None);
            }
        }
        ResourceKind::Workflow | ResourceKind::Blueprint => {
            if let Ok(definition) = Definition::read(spec) {
                ahead.of_definition(&definition);
            }
        }
        _ => {}
    }
    // Another resource by the same name counts its versions from the beginning.
    json!({"resource": record.id, "version": record.version.version})
}
