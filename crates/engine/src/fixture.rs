//! What unit tests of this crate have in common: ledgers in memory, jobs and runs with nothing special about them, and the
//! lines that a test logs.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use bowline_model::idempotency::RequestHash;
use bowline_model::worker::Abilities;
use bowline_model::{JobId, Labels, Lane, RunId, TaskType, TenantId, Timestamp, WorkerName};
use bowline_store::{Claimant, ClaimedRun, Clock, Ledger, ManualClock, NewJob, Origin};
use bowline_store_sql::{SqlLedger, SqlSettings};

pub const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn settings() -> SqlSettings {
    SqlSettings::new(ManualClock::at(NOW) as Arc<dyn Clock>)
}

/// An empty ledger whose clock stands still.
pub fn ledger() -> Arc<dyn Ledger> {
    Arc::new(SqlLedger::open_memory_alone(&settings()).expect("a ledger"))
}

/// A ledger that is unavailable, and says so at once.
pub fn unavailable_ledger() -> Arc<dyn Ledger> {
    let (ledger, driver) = SqlLedger::open_memory(&settings(), None).expect("a ledger");
    drop(driver);
    Arc::new(ledger)
}

pub fn tenant(n: u8) -> TenantId {
    TenantId::mint(NOW, [n; 10])
}

pub fn worker_name(text: &str) -> WorkerName {
    WorkerName::new(text).expect("a name")
}

fn noop() -> TaskType {
    TaskType::new("noop").expect("a name")
}

/// A `noop` of a tenant.
pub fn job(tenant: TenantId, n: u8, payload: &str) -> NewJob {
    NewJob {
        id: JobId::mint(NOW, [n; 10]),
        tenant,
        lane: Lane::Default,
        task_type: noop(),
        requires: Labels::default(),
        priority: 0,
        payload: payload.into(),
        policy: None,
        run_at: None,
        keys: Vec::new(),
        hash: RequestHash::from_bytes([n; 32]),
        origin: Origin { actor: "ada".into(), request_id: "test".into(), ..Origin::default() },
        replay_of: None,
        fleet: None,
        flow: None,
    }
}

/// A worker that takes `noop` jobs: of one tenant, or of all as the workers inside the server do.
pub fn claimant(tenant: Option<TenantId>, worker: &str, wants: u32) -> Claimant {
    Claimant {
        worker: worker_name(worker),
        tenant,
        passes_over: Arc::default(),
        abilities: Arc::new(Abilities { task_types: [noop()].into(), labels: Labels::default() }),
        wants,
        busy: 0,
        slots: wants,
        accepts_at_once: false,
    }
}

/// A run as it is handed out. No ledger knows it.
pub fn claimed(tenant: TenantId, worker: &str, n: u8) -> ClaimedRun {
    ClaimedRun {
        run: RunId::mint(NOW, [n; 10]),
        job: JobId::mint(NOW, [n; 10]),
        tenant,
        worker: worker_name(worker),
        lane: Lane::Default,
        task_type: noop(),
        payload: "null".into(),
        attempt: 1,
        fence: 1,
        timeout_ms: 3_600_000,
        created_at: NOW,
        claimed_at: NOW,
        trace_id: None,
        correlation_id: None,
        unit: None,
    }
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What this thread logs, down to debug, until it is dropped.
pub struct LogLines {
    lines: Lines,
    _guard: tracing::subscriber::DefaultGuard,
}

impl LogLines {
    pub fn capture() -> Self {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        Self { lines, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// How many lines have this text in them.
    pub fn count(&self, text: &str) -> usize {
        let lines = self.lines.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&lines).lines().filter(|line| line.contains(text)).count()
    }
}
