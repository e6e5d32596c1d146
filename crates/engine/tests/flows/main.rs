//! Runs of workflows, in an engine with everything but the network: a real ledger on disk, real loops, the built-in worker,
//! and a clock that is turned by hand.

mod blueprints;
mod builtin;
mod calls;
mod commands;
mod consent;
mod faults;
mod graphs;
mod logs;
mod odd;
mod questions;
mod quotas;
mod steering;
mod step_details;
mod stepping;
mod tenants;
mod time_travel;
mod undo;
mod wait_events;
mod waits;
mod why;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_connect::egress::{Doors, EgressRules};
use bowline_engine::builtin::{Handlers, HttpRequest, Task};
use bowline_engine::flow::{FlowRequest, FlowSubmitted, INLINE, StepView, WorkflowChoice};
use bowline_engine::secrets::{SecretRules, Secrets};
use bowline_engine::{Engine, EngineSettings, QuotaLimits, TenantRules};
use bowline_model::audit::Author;
use bowline_model::clock::ClockRules;
use bowline_model::lane::LaneWeights;
use bowline_model::lease::LeaseTimes;
use bowline_model::worker::Strategy;
use bowline_model::{ErrorClass, JobId, JobStatus, Lane, RunError, TaskType, TenantId, Timestamp};
use bowline_store::{Clock, JobRecord, Ledger, ManualClock, Origin, Retention, Submitted};
use bowline_store_sql::{PgSettings, SqlLedger, SqlSettings};
use bowline_supervise::{Meters, Supervisor};
use serde_json::{Value, json};

/// An engine in a directory of its own.
pub struct House {
    pub engine: Arc<Engine>,
    pub clock: Arc<ManualClock>,
    pub tenant: TenantId,
    /// What handlers were asked to do: how often for each attempt of each job.
    pub witness: Witness,
    supervisor: Supervisor,
    /// Where everything of the engine runs, so that all of it can die at once.
    runtime: Option<tokio::runtime::Runtime>,
    home: Option<Home>,
}

/// Where the ledger is when nobody is there.
enum Home {
    Directory(tempfile::TempDir),
    /// The address of a database, which somebody else keeps.
    Database(String),
    /// Nowhere.
    Memory,
}

/// Fails as often as its payload says, by attempt.
async fn flaky(task: Task) -> Result<Option<Arc<str>>, RunError> {
    let payload: Value = serde_json::from_str(&task.payload).unwrap_or_default();
    if u64::from(task.attempt) <= payload["failures"].as_u64().unwrap_or(0) {
        return Err(RunError::new(ErrorClass::Transient, "not yet"));
    }
    Ok(Some(json!({"attempt": task.attempt, "job": task.job}).to_string().into()))
}

pub type Witness = Arc<Mutex<BTreeMap<(JobId, u32), u32>>>;

/// Writes down that it was asked, and fails if its payload says `by: 0`, at the top or in its body.
async fn witnessed(witness: Witness, task: Task) -> Result<Option<Arc<str>>, RunError> {
    *witness.lock().expect("nobody panicked").entry((task.job, task.attempt)).or_default() += 1;
    let payload: Value = serde_json::from_str(&task.payload).unwrap_or_default();
    if payload["by"] == json!(0) || payload["body"]["by"] == json!(0) {
        return Err(RunError::new(ErrorClass::Permanent, "asked to fail"));
    }
    Ok(Some(task.payload))
}

/// Waits until it is told to stop.
async fn endless(task: Task) -> Result<Option<Arc<str>>, RunError> {
    task.stop.cancelled().await;
    Ok(None)
}

/// What `http_request` does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calls {
    /// It writes down that it was asked.
    Witnessed,
    /// It calls, on this machine.
    Made,
}

/// What differs from one house to the next.
#[derive(Clone, Copy)]
struct Setting {
    calls: Calls,
    quotas: QuotaLimits,
}

impl From<Calls> for Setting {
    fn from(calls: Calls) -> Self {
        Self { calls, quotas: QuotaLimits::default() }
    }
}

/// An engine with everything but its loops.
fn engine_on(
    ledger: Arc<dyn Ledger>,
    as_clock: Arc<dyn Clock>,
    witness: &Witness,
    name: &str,
    seed: u64,
    Setting { calls, quotas }: Setting,
) -> Arc<Engine> {
    let mut handlers = Handlers::standard();
    handlers.add(TaskType::new("flaky").expect("a name"), Arc::new(flaky));
    handlers.add(TaskType::new("endless").expect("a name"), Arc::new(endless));
    handlers.add(TaskType::new("warns").expect("a name"), Arc::new(logs::warns));
    for name in ["witnessed", "http_request", "rabbitmq_publish"] {
        let witness = Arc::clone(witness);
        let handler = move |task| witnessed(Arc::clone(&witness), task);
        handlers.add(TaskType::new(name).expect("a name"), Arc::new(handler));
    }
    let settings = EngineSettings {
        weights: LaneWeights::default(),
        strategy: Strategy::RoundRobin,
        lease: LeaseTimes { ttl_ms: 30_000, accept_ms: 10_000, heartbeat_ms: 50, deadline_grace_ms: 500 },
        retention: Retention { finished_jobs_ms: i64::MAX / 2_000, events_ms: i64::MAX / 2_000 },
        job_deadline_ms: None,
        command_retries: Default::default(),
        builtin_slots: 64,
        egress: TenantRules::default(),
        quotas,
        server_name: name.to_owned(),
        seed,
    };
    let secrets = Secrets::new(Arc::clone(&ledger), Arc::clone(&as_clock), SecretRules::default(), BTreeMap::default());
    if calls == Calls::Made {
        let here = vec!["127.0.0.1/32".parse().expect("a network")];
        let everybody = EgressRules { allow_networks: here, ..EgressRules::default() };
        let doors = Doors::new(TenantRules { everybody, ..TenantRules::default() }).expect("doors");
        let calls = HttpRequest::new(doors, Arc::clone(&secrets), Arc::clone(&as_clock));
        handlers.add(HttpRequest::task_type(), Arc::new(calls));
    }
    let blobs = Arc::default() as Arc<bowline_backbone::MemoryBlobs>;
    Engine::new(ledger, as_clock, Meters::new(), settings, handlers, blobs, secrets).expect("an engine")
}

/// A door to a ledger on PostgreSQL.
pub async fn postgres(url: &str, clock: &Arc<ManualClock>) -> Arc<dyn Ledger> {
    let as_clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(clock);
    let patience = Duration::from_secs(20);
    let pg = PgSettings {
        url: url.to_owned(),
        connect_timeout: patience,
        statement_timeout: patience,
        clock: Some(Arc::clone(&as_clock)),
    };
    Arc::new(SqlLedger::open_postgres(pg, &SqlSettings::new(as_clock)).await.expect("a ledger"))
}

pub fn start_of_time() -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000)
}

impl House {
    pub async fn open() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Self::open_in(directory, ManualClock::at(start_of_time()), true).await
    }

    /// With calls that are made, to servers on this machine.
    pub async fn open_calling() -> Self {
        let clock = ManualClock::at(start_of_time());
        let as_clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        let ledger = SqlLedger::open_memory_alone(&SqlSettings::new(as_clock)).expect("a ledger");
        let house = Self::around(Arc::new(ledger), clock, Home::Memory, true, Calls::Made);
        // Where a call may lead depends on the tenant's name.
        let made = house.engine.ledger.create_tenant(house.tenant, "acme".to_owned(), "ada".into()).await;
        made.expect("stored").expect("a tenant");
        house
    }

    /// Without its loops: nothing happens but what a test does.
    pub async fn open_still() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Self::open_in(directory, ManualClock::at(start_of_time()), false).await
    }

    /// Where tenants may have so much.
    pub fn open_with_quotas(quotas: QuotaLimits) -> Self {
        let clock = ManualClock::at(start_of_time());
        let as_clock = Arc::<ManualClock>::clone(&clock) as Arc<dyn Clock>;
        let ledger = SqlLedger::open_memory_alone(&SqlSettings::new(Arc::clone(&as_clock))).expect("a ledger");
        let setting = Setting { calls: Calls::Witnessed, quotas };
        Self::around_by(as_clock, Arc::new(ledger), clock, Home::Memory, true, setting)
    }

    async fn open_in(directory: tempfile::TempDir, clock: Arc<ManualClock>, moves: bool) -> Self {
        let settings = SqlSettings::new(Arc::<ManualClock>::clone(&clock) as Arc<dyn Clock>);
        // Whoever was here before may not be gone yet.
        let mut tries = 0;
        let ledger: Arc<dyn Ledger> = loop {
            match SqlLedger::open_sqlite(directory.path(), &settings) {
                Ok(ledger) => break Arc::new(ledger),
                Err(error) if tries == 500 => panic!("{error}"),
                Err(_) => tries += 1,
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        Self::around(ledger, clock, Home::Directory(directory), moves, Calls::Witnessed)
    }

    /// On a database of PostgreSQL.
    pub async fn on_postgres(url: &str) -> Self {
        Self::return_to(url.to_owned(), ManualClock::at(start_of_time())).await
    }

    async fn return_to(url: String, clock: Arc<ManualClock>) -> Self {
        let ledger = postgres(&url, &clock).await;
        Self::around(ledger, clock, Home::Database(url), true, Calls::Witnessed)
    }

    fn around(ledger: Arc<dyn Ledger>, clock: Arc<ManualClock>, home: Home, moves: bool, calls: Calls) -> Self {
        let deciding = Arc::<ManualClock>::clone(&clock) as Arc<dyn Clock>;
        Self::around_by(deciding, ledger, clock, home, moves, calls.into())
    }

    /// A house whose clock is not believed when it is far from what the ledger knows.
    pub fn open_doubting() -> Self {
        let clock = ManualClock::at(start_of_time());
        let as_clock = Arc::<ManualClock>::clone(&clock) as Arc<dyn Clock>;
        let settings = SqlSettings { clock_rules: Some(ClockRules::default()), ..SqlSettings::new(as_clock) };
        let ledger = SqlLedger::open_memory_alone(&settings).expect("a ledger");
        let deciding = ledger.clock();
        Self::around_by(deciding, Arc::new(ledger), clock, Home::Memory, true, Calls::Witnessed.into())
    }

    fn around_by(
        deciding: Arc<dyn Clock>,
        ledger: Arc<dyn Ledger>,
        clock: Arc<ManualClock>,
        home: Home,
        moves: bool,
        setting: Setting,
    ) -> Self {
        let witness = Witness::default();
        let engine = engine_on(ledger, deciding, &witness, "test", 7, setting);
        let supervisor = Supervisor::new();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        if moves {
            let _inside = runtime.enter();
            engine.start(&supervisor);
        }
        let tenant = TenantId::from_uuid(uuid::Uuid::from_u128(1));
        Self { engine, clock, tenant, witness, supervisor, runtime: Some(runtime), home: Some(home) }
    }

    /// A second engine beside the first: on the same ledger, or on another door to it.
    pub fn neighbour(&self, ledger: Arc<dyn Ledger>) -> Arc<Engine> {
        let (clock, setting) = (Arc::<ManualClock>::clone(&self.clock), Calls::Witnessed.into());
        let engine = engine_on(ledger, clock, &self.witness, "neighbour", 8, setting);
        let _inside = self.runtime.as_ref().expect("a runtime").enter();
        engine.start(&self.supervisor);
        engine
    }

    /// Dies without a word and is there again, on the same ledger.
    pub async fn die_and_return(self) -> Self {
        match self.die() {
            (Home::Directory(directory), clock) => Self::open_in(directory, clock, true).await,
            (Home::Database(url), clock) => Self::return_to(url, clock).await,
            (Home::Memory, _) => panic!("what was in memory is gone"),
        }
    }

    /// The same, and something happens to the directory meanwhile.
    pub async fn die_and_return_after(self, meanwhile: impl FnOnce(&std::path::Path)) -> Self {
        let (Home::Directory(directory), clock) = self.die() else { panic!("there is no directory") };
        meanwhile(directory.path());
        Self::open_in(directory, clock, true).await
    }

    fn die(mut self) -> (Home, Arc<ManualClock>) {
        self.supervisor.abort();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        (self.home.take().expect("a home"), Arc::clone(&self.clock))
    }

    pub fn origin(&self) -> Origin {
        Origin { actor: "ada".into(), request_id: "test".into(), ..Origin::default() }
    }

    pub fn author(&self) -> Author {
        Author { tenant: Some(self.tenant), ..Author::from("ada") }
    }

    pub async fn submit(&self, request: FlowRequest) -> FlowSubmitted {
        let engine = &self.engine;
        let mut answers =
            engine.flows.submit(engine.hands(), self.tenant, &self.origin(), vec![request]).await.expect("accepted");
        answers.pop().expect("an answer")
    }

    /// Begins a run.
    pub async fn begin(&self, workflow: Value, input: Value) -> JobId {
        id_of(&self.submit(ask(workflow, input)).await)
    }

    /// Begins a run and waits until it is over.
    pub async fn run(&self, workflow: Value, input: Value) -> JobRecord {
        let job = self.begin(workflow, input).await;
        self.until(job, JobStatus::is_terminal).await
    }

    pub async fn job(&self, job: JobId) -> JobRecord {
        self.engine.ledger.find_job(self.tenant, job).await.expect("a look").expect("a job").0
    }

    pub async fn until(&self, job: JobId, wanted: impl Fn(JobStatus) -> bool) -> JobRecord {
        self.until_record(job, |record| wanted(record.state.status)).await
    }

    /// The same, for a state that is more than its status.
    pub async fn until_record(&self, job: JobId, wanted: impl Fn(&JobRecord) -> bool) -> JobRecord {
        for _ in 0..1_000 {
            let record = self.job(job).await;
            if wanted(&record) {
                return record;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let record = self.job(job).await;
        for other in
            self.engine.ledger.list_jobs(self.tenant, Default::default(), None, 100).await.expect("an answer").items
        {
            eprintln!("{} {} {:?}", other.task_type, other.state.status, other.error);
        }
        let steps: Vec<String> = self.steps(job).await.iter().map(|s| s.step.node.to_string()).collect();
        panic!("job {job} is {:?} with {:?} after {steps:?}", record.state, record.error);
    }

    pub async fn steps(&self, job: JobId) -> Vec<StepView> {
        self.engine.flows.steps(self.tenant, job, 1, 100_000).await.expect("steps").steps
    }

    /// The nodes a run came through, in order.
    pub async fn path(&self, job: JobId) -> Vec<String> {
        self.steps(job).await.into_iter().map(|view| view.step.node.to_string()).collect()
    }

    /// Everything the ledger says of itself must be true, whatever a test did.
    pub async fn check(&self) {
        let verified = self.engine.ledger.verify(20).await.expect("verified");
        assert_eq!(verified.faults, Vec::<String>::new());
    }
}

pub fn ask(workflow: Value, input: Value) -> FlowRequest {
    let spec = serde_json::from_value(workflow).expect("a workflow");
    FlowRequest {
        workflow: WorkflowChoice::Inline { name: INLINE.to_owned(), spec: Box::new(spec) },
        input,
        debug: false,
        breakpoints: Vec::new(),
        lane: Lane::Default,
        priority: 0,
        run_at: None,
        idempotency_key: None,
        external_id: None,
    }
}

pub fn id_of(submitted: &FlowSubmitted) -> JobId {
    match &submitted.submitted {
        Submitted::Accepted { id, .. }
        | Submitted::Replayed { id, .. }
        | Submitted::Pruned { id, .. }
        | Submitted::Conflict { id, .. } => *id,
    }
}

pub fn result_of(record: &JobRecord) -> Value {
    serde_json::from_str(record.result.as_deref().unwrap_or("null")).expect("JSON")
}

/// Nodes in a row, from `start` to `end`.
pub fn row(nodes: &[Value]) -> Value {
    let mut all = vec![json!({"id": "start", "type": "start"})];
    all.extend_from_slice(nodes);
    if nodes.last().is_none_or(|last| last["type"] != "end") {
        all.push(json!({"id": "end", "type": "end"}));
    }
    let edges: Vec<Value> =
        all.windows(2).map(|pair| json!({"source": pair[0]["id"], "target": pair[1]["id"]})).collect();
    json!({"nodes": all, "edges": edges})
}

pub fn node(id: &str, node_type: &str, config: Value) -> Value {
    json!({"id": id, "type": node_type, "config": config})
}

impl Drop for House {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
