//! Definitions: read once, checked once, and kept for as long as runs of them may need them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_model::blueprint::BlueprintSpec;
use bowline_model::idempotency::RequestHash;
use bowline_model::resource::ResourceKind;
use bowline_model::workflow::WorkflowSpec;
use bowline_model::{ResourceName, TenantId};
use bowline_store::{KeptDefinition, Ledger, ResourceKey, StoreError};
use bowline_workflow::program::{DefinitionMistake, Program};

use super::compile::{compile, compile_text};
use super::programs::Sized;
use crate::checks::Checks;
use crate::quotas::Quotas;

/// Bytes of programs that are kept in memory: by the executions that are pinned to them, and as many by name. More are compiled again
/// when they are needed.
const PROGRAMS_BYTES_MAX: usize = 64 << 20;
/// Definitions that are known to be stored, so that their bytes are counted once.
const STORED_MAX: usize = 100_000;

/// Why there is no program to run.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    #[error("there is no workflow {0}")]
    NoWorkflow(String),
    #[error("workflow {name} has no version {version}")]
    NoVersion { name: String, version: u32 },
    #[error("no version of workflow {0} is active")]
    NotActive(String),
    #[error("there is no blueprint {0}")]
    NoBlueprint(String),
    #[error("blueprint {name} has no version {version}")]
    NoBlueprintVersion { name: String, version: u32 },
    #[error("no version of blueprint {0} is active")]
    BlueprintNotActive(String),
    #[error("{}", first(.0))]
    Mistakes(Vec<DefinitionMistake>),
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn first(mistakes: &[DefinitionMistake]) -> String {
    match mistakes {
        [] => "the definition is wrong".to_owned(),
        [only] => format!("{}: {}", only.path, only.what),
        [first, rest @ ..] => format!("{}: {} (and {} more)", first.path, first.what, rest.len()),
    }
}

/// What a run can be a run of. For the ledger both are a text, and for the engine both are a program.
#[derive(Debug, Clone, PartialEq)]
pub enum Definition {
    Workflow(Box<WorkflowSpec>),
    Blueprint(Box<BlueprintSpec>),
}

impl Definition {
    /// Checks it and makes it ready to run.
    pub fn compile(&self) -> Result<Program, Vec<DefinitionMistake>> {
        match self {
            Self::Workflow(spec) => Program::compile(spec),
            Self::Blueprint(spec) => Program::of_blueprint(spec),
        }
    }

    pub(super) fn write(&self) -> Result<String, StoreError> {
        let text = match self {
            Self::Workflow(spec) => serde_json::to_string(spec),
            Self::Blueprint(spec) => serde_json::to_string(spec),
        };
        text.map_err(|e| StoreError::Broken(e.to_string()))
    }

    /// Reads what was stored. A blueprint has states, a workflow has none.
    pub(super) fn read(text: &str) -> Result<Self, StoreError> {
        #[derive(serde::Deserialize)]
        struct Shape {
            states: Option<serde::de::IgnoredAny>,
        }
        let broken = |e: serde_json::Error| StoreError::Broken(format!("a stored definition does not parse: {e}"));
        let shape: Shape = serde_json::from_str(text).map_err(broken)?;
        match shape.states {
            Some(_) => serde_json::from_str(text).map(Self::Blueprint).map_err(broken),
            None => serde_json::from_str(text).map(Self::Workflow).map_err(broken),
        }
    }
}

/// Which of the two a name is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DefinitionKind {
    Workflow,
    Blueprint,
}

impl DefinitionKind {
    pub(super) const fn resource(self) -> ResourceKind {
        match self {
            Self::Workflow => ResourceKind::Workflow,
            Self::Blueprint => ResourceKind::Blueprint,
        }
    }

    fn not_there(self, name: String, version: Option<u32>) -> DefinitionError {
        match (self, version) {
            (Self::Workflow, None) => DefinitionError::NoWorkflow(name),
            (Self::Workflow, Some(version)) => DefinitionError::NoVersion { name, version },
            (Self::Blueprint, None) => DefinitionError::NoBlueprint(name),
            (Self::Blueprint, Some(version)) => DefinitionError::NoBlueprintVersion { name, version },
        }
    }

    const fn not_active(self, name: String) -> DefinitionError {
        match self {
            Self::Workflow => DefinitionError::NotActive(name),
            Self::Blueprint => DefinitionError::BlueprintNotActive(name),
        }
    }
}

/// A definition that a run is pinned to.
#[derive(Debug, Clone)]
pub struct Pinned {
    pub kept: KeptDefinition,
    pub name: Arc<str>,
    pub version: Option<u32>,
    pub program: Arc<Program>,
}

/// A version of a resource: whose, of what sort, its name and its number.
type Version = (TenantId, DefinitionKind, String, u32);

#[derive(Debug)]
struct Known {
    /// By what the ledger calls it.
    programs: Sized<i64, Arc<Program>>,
    /// Versions of resources, each with the text that it was made of. A version never changes; but a resource can be deleted,
    /// and another one by its name counts from the beginning.
    versions: Sized<Version, (Arc<str>, Pinned)>,
    /// Whose they are, and their hashes.
    stored: HashSet<(TenantId, [u8; 32])>,
}

/// Definitions, as programs.
#[derive(Debug)]
pub struct Definitions {
    ledger: Arc<dyn Ledger>,
    checks: Arc<Checks>,
    quotas: Arc<Quotas>,
    known: Mutex<Known>,
}

impl Definitions {
    pub fn new(ledger: Arc<dyn Ledger>, checks: Arc<Checks>, quotas: Arc<Quotas>) -> Self {
        let known = Known {
            programs: Sized::up_to(PROGRAMS_BYTES_MAX),
            versions: Sized::up_to(PROGRAMS_BYTES_MAX),
            stored: HashSet::new(),
        };
        Self { ledger, checks, quotas, known: Mutex::new(known) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A definition that was stored: this version of it, or the active one.
    pub async fn named(
        &self,
        tenant: TenantId,
        kind: DefinitionKind,
        name: &ResourceName,
        version: Option<u32>,
    ) -> Result<Pinned, DefinitionError> {
        let text = name.to_string();
        let key = ResourceKey { tenant, kind: kind.resource(), name: name.clone() };
        let found = self.ledger.find_resource(key, version).await?;
        let Some(found) = found else {
            return Err(kind.not_there(text, version));
        };
        if version.is_none() && found.active.is_none() {
            return Err(kind.not_active(text));
        }
        let key = (tenant, kind, text, found.version.version);
        if let Some((spec, pinned)) = self.known().versions.get(&key)
            && *spec == found.version.spec
        {
            return Ok(pinned.clone());
        }
        let program = compile_text(tenant, &found.version.spec, true).await?;
        let pinned =
            self.keep(tenant, name.as_str().into(), Some(key.3), program, Arc::clone(&found.version.spec)).await?;
        let bytes = pinned.program.bytes(found.version.spec.len());
        self.known().versions.insert(key, (found.version.spec, pinned.clone()), bytes);
        Ok(pinned)
    }

    /// A definition that was written for one run. It is looked at as one that is stored would be.
    pub async fn inline(
        &self,
        tenant: TenantId,
        name: &str,
        definition: &Definition,
    ) -> Result<Pinned, DefinitionError> {
        let (program, text) = compile(tenant, definition.clone()).await?;
        let mistakes = match definition {
            Definition::Workflow(spec) => self.checks.workflow(tenant, spec).await?,
            Definition::Blueprint(spec) => self.checks.blueprint(tenant, spec).await?,
        };
        if !mistakes.is_empty() {
            return Err(DefinitionError::Mistakes(mistakes));
        }
        self.keep(tenant, name.into(), None, program, text).await
    }

    async fn keep(
        &self,
        tenant: TenantId,
        name: Arc<str>,
        version: Option<u32>,
        program: Program,
        text: Arc<str>,
    ) -> Result<Pinned, DefinitionError> {
        let program = Arc::new(program);
        let hash = *RequestHash::of_parts(&[text.as_bytes()]).as_bytes();
        // It is stored before anything is known of the job, which may be refused. So it finds room by itself, once.
        let is_known = self.known().stored.contains(&(tenant, hash));
        let bytes = if is_known { 0 } else { text.len() as u64 };
        let room = self.quotas.reserve(tenant, bytes).map_err(StoreError::from)?;
        let id = self.ledger.keep_definition(tenant, hash, Arc::clone(&text)).await?;
        room.keep();
        let program = self.remember(id, program, text.len());
        {
            let mut known = self.known();
            if known.stored.len() >= STORED_MAX {
                known.stored.clear();
            }
            known.stored.insert((tenant, hash));
        }
        Ok(Pinned { kept: KeptDefinition { id, hash, body: text }, name, version, program })
    }

    /// Keeps a program, or finds the one that is kept. `text` is how many bytes it was made of.
    fn remember(&self, id: i64, program: Arc<Program>, text: usize) -> Arc<Program> {
        let bytes = program.bytes(text);
        let mut known = self.known();
        if let Some(kept) = known.programs.get(&id) {
            return Arc::clone(kept);
        }
        known.programs.insert(id, Arc::clone(&program), bytes);
        program
    }

    /// The definition of a run, by what the ledger calls it.
    pub async fn of_run(&self, tenant: TenantId, id: i64) -> Result<Arc<Program>, DefinitionError> {
        if let Some(program) = self.known().programs.get(&id) {
            return Ok(Arc::clone(program));
        }
        let text = self.kept_for_run(id).await?.body;
        let program = Arc::new(compile_text(tenant, &text, false).await?);
        Ok(self.remember(id, program, text.len()))
    }

    /// The same, as it was written.
    pub async fn definition_of_run(&self, id: i64) -> Result<Definition, DefinitionError> {
        Ok(Definition::read(&self.kept_for_run(id).await?.body)?)
    }

    /// The same, to begin another run with.
    pub async fn kept_for_run(&self, id: i64) -> Result<KeptDefinition, DefinitionError> {
        let text = self.ledger.find_definition(id).await?;
        let text = text.ok_or_else(|| StoreError::Broken(format!("definition {id} is gone, and a run needs it")))?;
        let hash = *RequestHash::of_parts(&[text.as_bytes()]).as_bytes();
        Ok(KeptDefinition { id, hash, body: text.into() })
    }
}
