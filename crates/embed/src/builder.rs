//! What is known before anything runs: where the ledger is, and who does what.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use bowline_backbone::MemoryBlobs;
use bowline_engine::builtin::{Handler, HandlerFuture, Handlers, NAME_PREFIX, Task};
use bowline_engine::secrets::{SecretRules, Secrets};
use bowline_engine::{Engine, EngineSettings, TenantRules};
use bowline_inventory::document::documents;
use bowline_model::audit::Author;
use bowline_model::blueprint::BlueprintSpec;
use bowline_model::lane::LaneWeights;
use bowline_model::lease::LeaseTimes;
use bowline_model::resource::Spec;
use bowline_model::worker::Strategy;
use bowline_model::{ErrorClass, JobId, ResourceName, RunError, TaskType, TenantId};
use bowline_store::{Clock, Ledger, Retention, SteadyClock};
use bowline_store_sql::{SqlLedger, SqlSettings};
use bowline_supervise::{Meters, Supervisor};
use rand::RngExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::blueprint::{Blueprint, task_type_of};
use crate::bowline::Bowline;
use crate::error::{Error, Failure};

/// The tenant of a program that has only itself.
const TENANT: &str = "default";
/// Who does what nobody in particular asked for.
pub(crate) const AUTHOR: &str = "embedded";

/// A Bowline that is about to be opened; see [`Bowline::in_memory`] and [`Bowline::open`].
pub struct Builder {
    directory: Option<PathBuf>,
    clock: Option<Arc<dyn Clock>>,
    slots: u32,
    handlers: Vec<(Result<TaskType, Error>, Arc<dyn Handler>)>,
    blueprints: Vec<(String, Result<BlueprintSpec, Error>)>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.blueprints.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Builder")
            .field("directory", &self.directory)
            .field("blueprints", &names)
            .finish_non_exhaustive()
    }
}

/// What the handler of a task knows beside its parameters.
#[derive(Debug, Clone)]
pub struct TaskContext {
    /// The job that this is an attempt of.
    pub job: JobId,
    /// Which attempt, from 1.
    pub attempt: u32,
    stop: CancellationToken,
}

impl TaskContext {
    /// Returns when the task should stop, because nobody wants it any more. A handler that returns after that has stopped.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }
}

impl Builder {
    pub(crate) fn new(directory: Option<PathBuf>) -> Self {
        Self { directory, clock: None, slots: 64, handlers: Vec::new(), blueprints: Vec::new() }
    }

    /// Goes by another clock, such as one that a test turns by hand.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// How many handlers run at once; 64 unless said.
    #[must_use]
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// Does tasks of this type.
    ///
    /// Parameters that do not fit their type are a permanent failure. What is returned is the result of the task.
    #[must_use]
    pub fn task<P, R, F, Fut>(mut self, task_type: &str, handler: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
        F: Fn(P, TaskContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Failure>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let handle = move |task: Task| -> HandlerFuture {
            let handler = Arc::clone(&handler);
            Box::pin(async move {
                let permanent = |what: String| RunError::new(ErrorClass::Permanent, what);
                let params = &mut serde_json::Deserializer::from_str(&task.payload);
                let params: P = serde_path_to_error::deserialize(params).map_err(|error| {
                    permanent(format!("the parameters do not fit at {}: {}", error.path(), error.inner()))
                })?;
                let context = TaskContext { job: task.job, attempt: task.attempt, stop: task.stop.clone() };
                let result = handler(params, context).await.map_err(|failure| failure.0)?;
                let text = serde_json::to_string(&result)
                    .map_err(|error| permanent(format!("the result cannot be written as JSON: {error}")))?;
                Ok(Some(text.into()))
            })
        };
        self.handlers.push((TaskType::new(task_type).map_err(Error::from), Arc::new(handle)));
        self
    }

    /// Knows a blueprint, and runs the handlers of its states.
    #[must_use]
    pub fn blueprint<T: Serialize + DeserializeOwned + Send + 'static>(mut self, blueprint: Blueprint<T>) -> Self {
        let name = blueprint.name().to_owned();
        for (state, handler) in blueprint.handlers() {
            self.handlers.push((task_type_of(&name, state).map_err(Error::from), handler));
        }
        let spec = match blueprint.doubled() {
            Some(state) => {
                Err(Error::Blueprint { name: name.clone(), mistakes: format!("there are two states {state:?}") })
            }
            None => blueprint.spec().map_err(Error::from),
        };
        self.blueprints.push((name, spec));
        self
    }

    /// Knows a blueprint that is written as data. Its handlers are tasks, here or in other workers.
    #[must_use]
    pub fn blueprint_spec(mut self, name: &str, spec: BlueprintSpec) -> Self {
        self.blueprints.push((name.to_owned(), Ok(spec)));
        self
    }

    /// Knows the blueprints of a text in YAML: documents with `kind: blueprint`, `name` and `spec`, as `bowline apply` takes
    /// them.
    #[must_use]
    pub fn blueprint_yaml(mut self, text: &str) -> Self {
        let refused = |name: &str, what: String| Error::Blueprint { name: name.to_owned(), mistakes: what };
        let read = match documents(text) {
            Ok(read) => read,
            Err(error) => {
                self.blueprints.push(("(YAML)".to_owned(), Err(refused("(YAML)", error.to_string()))));
                return self;
            }
        };
        for document in read {
            let mut value = document.value;
            let name = value["name"].as_str().unwrap_or("(without a name)").to_owned();
            let spec = match value["kind"].as_str() {
                Some("blueprint") => {
                    let spec = value.get_mut("spec").map(Value::take).unwrap_or_default();
                    BlueprintSpec::read(spec).map_err(|bad| refused(&name, bad.to_string()))
                }
                _ => Err(refused(&name, "a document has `kind: blueprint`, `name` and `spec`".to_owned())),
            };
            self.blueprints.push((name, spec));
        }
        self
    }

    /// Opens the ledger, stores the blueprints as new versions where they have changed, and begins to work.
    pub async fn serve(self) -> Result<Bowline, Error> {
        let mut handlers = Handlers::standard();
        let mut known = std::collections::BTreeSet::new();
        for (task_type, handler) in self.handlers {
            let task_type = task_type?;
            if !known.insert(task_type.clone()) {
                return Err(Error::Twice(task_type.to_string()));
            }
            handlers.add(task_type, handler);
        }
        let mut blueprints = Vec::new();
        for (name, spec) in self.blueprints {
            blueprints.push((ResourceName::new(&name)?, spec?));
        }
        let clock: Arc<dyn Clock> = match self.clock {
            Some(clock) => clock,
            None => SteadyClock::start(),
        };
        let seed: u64 = rand::rng().random();
        let settings = SqlSettings { seed, ..SqlSettings::new(Arc::clone(&clock)) };
        let ledger = Arc::new(match self.directory {
            Some(directory) => {
                let opened = tokio::task::spawn_blocking(move || SqlLedger::open_sqlite(&directory, &settings)).await;
                opened.map_err(|error| Error::Open(error.into()))??
            }
            None => SqlLedger::open_memory_alone(&settings)?,
        });
        // The directory is ours alone, so whatever ran in the program before us is over.
        ledger.reclaim(NAME_PREFIX).await?;
        let shared: Arc<dyn Ledger> = ledger;
        let tenant = tenant(&*shared, &*clock).await?;
        let secrets =
            Secrets::new(Arc::clone(&shared), Arc::clone(&clock), SecretRules::default(), BTreeMap::default());
        let blobs = Arc::new(MemoryBlobs::default());
        let settings = engine_settings(seed, self.slots);
        let engine =
            Engine::new(shared, clock, Meters::new(), settings, handlers, blobs, secrets).map_err(Error::Open)?;
        let author = Author { tenant: Some(tenant), ..Author::from(AUTHOR) };
        for (name, spec) in blueprints {
            let text = name.to_string();
            let spec = Spec::Blueprint(Box::new(spec));
            let put = engine.resources.put(tenant, name, &spec, None, author.clone(), true, None).await;
            put.map_err(|error| refusal(text, error))?;
        }
        let supervisor = Supervisor::new();
        engine.start(&supervisor);
        Ok(Bowline::new(engine, supervisor, tenant, author))
    }
}

/// All that is wrong with a blueprint, or what the ledger said.
fn refusal(name: String, error: bowline_engine::fleet::PutError) -> Error {
    use bowline_engine::fleet::PutError;
    match error {
        PutError::Bad(bad) => {
            let all: Vec<String> = bad.all().map(|bad| format!("{}: {}", bad.path, bad.what)).collect();
            Error::Blueprint { name, mistakes: all.join("; ") }
        }
        PutError::Store(error) => Error::Store(error),
        overtaken @ PutError::Overtaken { .. } => Error::Blueprint { name, mistakes: overtaken.to_string() },
    }
}

async fn tenant(ledger: &dyn Ledger, clock: &dyn Clock) -> Result<TenantId, Error> {
    if let Some(there) = ledger.list_tenants().await?.into_iter().find(|tenant| tenant.name == TENANT) {
        return Ok(there.id);
    }
    let id = TenantId::mint(clock.now(), rand::rng().random());
    ledger.create_tenant(id, TENANT.to_owned(), AUTHOR.into()).await?;
    Ok(id)
}

fn engine_settings(seed: u64, slots: u32) -> EngineSettings {
    EngineSettings {
        weights: LaneWeights::default(),
        strategy: Strategy::RoundRobin,
        lease: LeaseTimes { ttl_ms: 30_000, accept_ms: 10_000, heartbeat_ms: 1_000, deadline_grace_ms: 500 },
        retention: Retention { finished_jobs_ms: 30 * 86_400_000, events_ms: 30 * 86_400_000 },
        job_deadline_ms: None,
        command_retries: Default::default(),
        builtin_slots: slots,
        egress: TenantRules::default(),
        quotas: bowline_engine::QuotaLimits::default(),
        server_name: format!("{seed:016x}"),
        seed,
    }
}
