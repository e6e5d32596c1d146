//! The ports, as calls to the committer and the readers.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::future::Future;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use bowline_model::audit::Author;
use bowline_model::clock::ClockRules;
use bowline_model::dead_letter::DeadLetterStatus;
use bowline_model::fleet::MarginRules;
use bowline_model::idempotency::{KeyScope, RequestHash};
use bowline_model::lease::LeaseTimes;
use bowline_model::{Event, JobId, Lane, RunId, TenantId, Timestamp, WorkerName};
use bowline_store::{
    BeatAnswer, ClaimRules, Claimant, ClaimedRun, Clock, ClockAccepted, ClockStatus, Closed, DeadLetter,
    DeadLetterOrder, DeadLetterStore, EventFilter, EventPage, EventStore, Heartbeat, JobFilter, JobOrder, JobRecord,
    JobRef, JobStore, LaneDepth, Ledger, LedgerClock, Listened, MaintenanceStore, NewJob, Notice, Observer,
    OrderAnswer, Page, Position, Promoted, PruneMark, Pruned, Reaped, ReportAnswer, Retention, RevokeToken,
    RevokedTokens, RunRecord, RunReport, RunStore, StoreError, StoreResult, Submitted, TellAnswer, Tenant, TenantStore,
    TokenRecord, TokenStore, ToldEvents, Verified, WaitingFacts, Wake, WorkerRecord, WorkerStore,
};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::channels::Channels;
use crate::command::{Command, Look};
use crate::committer::{Source, commit_forever, read_forever};
use crate::db::{AnyDb, Db, FaultPlan, PgSettings, Sql, SqliteDb, Val};
use crate::known::KnownResources;
use crate::migrate::{self, Migrated};
use crate::queue::{NotQueued, WriteQueue, WriteShare, Writes};
use crate::searches::Searches;
use crate::shared::Shared;
use crate::standing::Standing;
use crate::tenant_room::TenantRoom;
use crate::write::learn_time;
use crate::{postgres, read};

/// What a ledger needs to know beside where it is.
#[derive(Debug, Clone)]
pub struct SqlSettings {
    pub clock: Arc<dyn Clock>,
    /// When the clock is too far from the ledger's last known moment to be believed; `None` believes it always.
    pub clock_rules: Option<ClockRules>,
    /// How long an idempotency key is remembered.
    pub key_ttl_ms: i64,
    /// How long hosts are kept when a run went missing there.
    pub margin: MarginRules,
    /// Jobs that may wait for the committer before callers are told to come back later.
    pub backlog_max: usize,
    /// Writes of one tenant that may wait for the committer.
    pub write_share: WriteShare,
    /// Chance, for run ids and jitter. The same seed gives the same ledger.
    pub seed: u64,
    /// Whether a ledger that is not there may be made, and an older one brought to this version's shape.
    pub make: bool,
    /// Who wants figures of what happens.
    pub observer: Option<Arc<dyn Observer>>,
}

impl SqlSettings {
    /// What suits most: keys for three days, room for 50,000 submissions, a ledger made where there is none.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            clock_rules: None,
            key_ttl_ms: 72 * 3_600_000,
            margin: MarginRules::default(),
            backlog_max: 50_000,
            write_share: WriteShare::default(),
            seed: 7,
            make: true,
            observer: None,
        }
    }
}

/// The name of the ledger's file in its directory.
const FILE: &str = "bowline.db";

/// What makes a ledger in memory move, while it is polled.
pub type Driver = Pin<Box<dyn Future<Output = ()>>>;

/// A ledger on either engine.
pub struct SqlLedger {
    pub(crate) shared: Arc<Shared>,
    writes: Writes,
    /// `None`: questions go through the committer, for ledgers with one connection.
    looks: Option<mpsc::Sender<Look>>,
    /// Room for submissions. Everything else is bounded by the number of workers, and must get through.
    room: Semaphore,
    room_max: usize,
    /// How much of it each tenant has.
    room_of: TenantRoom,
    searches: Searches,
    own: Own,
    closing: AtomicBool,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
    _lock: Option<File>,
    pub migrated: Migrated,
}

impl std::fmt::Debug for SqlLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqlLedger").field("migrated", &self.migrated).finish_non_exhaustive()
    }
}

const READERS: usize = 2;
const OWN_ADD: Sql = Sql::Same("insert into ledger (key, value) values ($1, $2) on conflict do nothing");
const OWN: Sql = Sql::Same("select value from ledger where key = $1");

/// Numbers the ledger made for itself when it was new. All servers on it share them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own {
    /// Keeps the event ids of two ledgers apart.
    pub salt: u64,
    pub cursor_secret: [u8; 32],
}

/// The ledger's own numbers, made once.
pub(crate) async fn own(db: &mut impl Db, rng: &mut StdRng) -> StoreResult<Own> {
    let mut words = [0u64; 5];
    for (n, word) in words.iter_mut().enumerate() {
        use rand::RngExt;
        let key = format!("own_{n}");
        let fresh = rng.random::<u64>().to_string();
        db.execute(OWN_ADD, &[Val::Text(&key), Val::Text(&fresh)]).await?;
        let found = db.query(OWN, &[Val::Text(&key)], |row| row.text(0)).await?;
        let found = found.first().and_then(|text| text.parse().ok());
        *word = found.ok_or_else(|| StoreError::Broken("the ledger has lost its own numbers".to_owned()))?;
    }
    let mut cursor_secret = [0; 32];
    for (place, word) in cursor_secret.chunks_exact_mut(8).zip(&words[1..]) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    Ok(Own { salt: words[0], cursor_secret })
}

fn shared(settings: &SqlSettings, known: KnownResources) -> Arc<Shared> {
    Arc::new(Shared {
        clock: LedgerClock::new(Arc::clone(&settings.clock), settings.clock_rules),
        channels: Channels::default(),
        work: Wake::default(),
        events: Wake::default(),
        timers: Wake::default(),
        fleets: Wake::default(),
        flows: Wake::default(),
        others: Wake::default(),
        key_ttl_ms: settings.key_ttl_ms,
        margin: settings.margin,
        standing: Standing::default(),
        known,
        observer: settings.observer.clone(),
    })
}

/// Takes the answer of a future that has no reason to wait: what SQLite does is done at once. So a ledger can be opened
/// from anywhere, inside a runtime or outside.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("a call to SQLite does not wait"),
    }
}

/// Waits on the calling thread, which is the ledger's own.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime of one thread")
        .block_on(future)
}

impl SqlLedger {
    /// Opens or makes the ledger in a directory. One process at a time may have it.
    pub fn open_sqlite(directory: &Path, settings: &SqlSettings) -> StoreResult<Self> {
        if !settings.make && !directory.join(FILE).exists() {
            return Err(StoreError::Unavailable(format!("there is no ledger in {}", directory.display())));
        }
        let unavailable = |what: &str, e: std::io::Error| StoreError::Unavailable(format!("{what}: {e}"));
        let mut closed = DirBuilder::new();
        closed.recursive(true).mode(0o700);
        closed.create(directory).map_err(|e| unavailable("the data directory cannot be made", e))?;
        // For their owner from the first byte on; SQLite gives its log and its index the mode of the database.
        let own = |name: &str| OpenOptions::new().create(true).append(true).mode(0o600).open(directory.join(name));
        let lock = own("bowline.lock").map_err(|e| unavailable("the data directory cannot be written", e))?;
        lock.try_lock().map_err(|_| {
            StoreError::Unavailable(format!("another process is using the data directory {}", directory.display()))
        })?;
        own(FILE).map_err(|e| unavailable("the data directory cannot be written", e))?;
        let path = directory.join(FILE);
        let shared = shared(settings, KnownResources::of_one_process());
        let clock: Arc<dyn Clock> = shared.clock.clone();
        let mut writer = SqliteDb::open_writer(&path, Arc::clone(&clock))?;
        let mut rng = StdRng::seed_from_u64(settings.seed);
        let (migrated, own) = at_once(prepare(&mut writer, &shared, &mut rng, settings.make))?;
        let mut threads = vec![writer.tune_writer(&path)?];
        let (writes, queue) = WriteQueue::new(settings.write_share);
        let (looks, questions) = mpsc::channel::<Look>(1_024);
        let questions = Arc::new(tokio::sync::Mutex::new(questions));
        for n in 0..READERS {
            let reader = SqliteDb::open_reader(&path, Arc::clone(&clock))?;
            let questions = Arc::clone(&questions);
            threads.push(spawn(format!("ledger-read-{n}"), move || {
                block_on(read_forever(Source::Held(Box::new(AnyDb::Sqlite(reader))), questions));
            })?);
        }
        let for_writer = Arc::clone(&shared);
        threads.push(spawn("ledger-write".to_owned(), move || {
            let source = Source::Held(Box::new(AnyDb::Sqlite(writer)));
            block_on(commit_forever(source, queue.taker(), for_writer, rng));
        })?);
        Ok(Self::new(shared, writes, Some(looks), settings, own, threads, Some(lock), migrated))
    }

    /// A ledger in memory, on a thread of its own. It is gone with whoever holds it.
    pub fn open_memory_alone(settings: &SqlSettings) -> StoreResult<Self> {
        let shared = shared(settings, KnownResources::of_one_process());
        let mut db = SqliteDb::open_memory(shared.clock.clone())?;
        let mut rng = StdRng::seed_from_u64(settings.seed);
        let (migrated, own) = at_once(prepare(&mut db, &shared, &mut rng, true))?;
        let (writes, queue) = WriteQueue::new(settings.write_share);
        let for_writer = Arc::clone(&shared);
        let thread = spawn("ledger-write".to_owned(), move || {
            let source = Source::Held(Box::new(AnyDb::Sqlite(db)));
            block_on(commit_forever(source, queue.taker(), for_writer, rng));
        })?;
        Ok(Self::new(shared, writes, None, settings, own, vec![thread], None, migrated))
    }

    /// A ledger in memory, driven by the caller: the future must be polled for anything to happen. For tests and
    /// simulations that own time and order; `faults` makes it fail on purpose.
    pub fn open_memory(settings: &SqlSettings, faults: Option<Arc<dyn FaultPlan>>) -> StoreResult<(Self, Driver)> {
        let shared = shared(settings, KnownResources::of_one_process());
        let mut db = SqliteDb::open_memory(shared.clock.clone())?;
        let mut rng = StdRng::seed_from_u64(settings.seed);
        let (migrated, own) = at_once(prepare(&mut db, &shared, &mut rng, settings.make))?;
        Ok(Self::in_memory(db, shared, rng, settings, migrated, own, faults))
    }

    fn in_memory(
        mut db: SqliteDb,
        shared: Arc<Shared>,
        rng: StdRng,
        settings: &SqlSettings,
        migrated: Migrated,
        own: Own,
        faults: Option<Arc<dyn FaultPlan>>,
    ) -> (Self, Driver) {
        if let Some(faults) = faults {
            db.inject(faults);
        }
        let (writes, queue) = WriteQueue::new(settings.write_share);
        let source = Source::Held(Box::new(AnyDb::Sqlite(db)));
        let driver = Box::pin(commit_forever(source, queue.taker(), Arc::clone(&shared), rng));
        (Self::new(shared, writes, None, settings, own, Vec::new(), None, migrated), driver)
    }

    /// Opens or makes the ledger in a PostgreSQL database. Several processes may have it.
    pub async fn open_postgres(pg: PgSettings, settings: &SqlSettings) -> StoreResult<Self> {
        let shared = shared(settings, KnownResources::default());
        let (writes, queue) = WriteQueue::new(settings.write_share);
        let (looks, questions) = mpsc::channel::<Look>(1_024);
        let (ready, opened) = oneshot::channel();
        let (seed, make) = (settings.seed, settings.make);
        let for_thread = Arc::clone(&shared);
        let thread = spawn("ledger-pg".to_owned(), move || {
            postgres::run(pg, for_thread, queue, questions, seed, make, ready);
        })?;
        let opened = opened.await.map_err(|_| StoreError::Unavailable("the ledger's thread ended".to_owned()))?;
        let (migrated, own) = opened?;
        Ok(Self::new(shared, writes, Some(looks), settings, own, vec![thread], None, migrated))
    }

    #[expect(clippy::too_many_arguments, reason = "private; the parts come from three ways to open a ledger")]
    fn new(
        shared: Arc<Shared>,
        writes: Writes,
        looks: Option<mpsc::Sender<Look>>,
        settings: &SqlSettings,
        own: Own,
        threads: Vec<thread::JoinHandle<()>>,
        lock: Option<File>,
        migrated: Migrated,
    ) -> Self {
        Self {
            shared,
            writes,
            looks,
            room: Semaphore::new(settings.backlog_max),
            room_max: settings.backlog_max,
            room_of: TenantRoom::new(settings.backlog_max),
            searches: Searches::new(READERS),
            own,
            closing: AtomicBool::new(false),
            threads: Mutex::new(threads),
            _lock: lock,
            migrated,
        }
    }

    fn is_open(&self) -> StoreResult<()> {
        if self.closing.load(Ordering::Acquire) {
            return Err(StoreError::Unavailable("the ledger is closing".to_owned()));
        }
        Ok(())
    }

    pub(crate) async fn wish<T>(
        &self,
        make: impl FnOnce(oneshot::Sender<StoreResult<T>>) -> Command,
    ) -> StoreResult<T> {
        self.is_open()?;
        let (line, answer) = oneshot::channel();
        self.writes.0.push(make(line)).map_err(not_queued)?;
        // A line that is dropped without an answer means the committer died in mid-batch: it may be stored.
        answer.await.unwrap_or_else(|_| Err(StoreError::Unknown("the ledger stopped in mid-commit".to_owned())))
    }

    pub(crate) async fn look<T: Send + 'static>(
        &self,
        ask: impl for<'a> FnOnce(&'a mut AnyDb) -> Pin<Box<dyn Future<Output = StoreResult<T>> + 'a>> + Send + 'static,
    ) -> StoreResult<T> {
        self.is_open()?;
        let (line, answer) = oneshot::channel();
        let look: Look = Box::new(move |db| {
            Box::pin(async move {
                // Whoever asked has left: the line behind it moves on.
                if line.is_closed() {
                    return;
                }
                let found = ask(db).await;
                drop(line.send(found));
            })
        });
        let away = || StoreError::Unavailable("the ledger cannot be read now".to_owned());
        match &self.looks {
            Some(looks) => looks.try_send(look).map_err(|_| away())?,
            None => self.writes.0.push(Command::Look(look)).map_err(|_| away())?,
        }
        answer.await.map_err(|_| away())?
    }

    /// What cursors of this ledger are sealed with.
    pub const fn cursor_secret(&self) -> [u8; 32] {
        self.own.cursor_secret
    }

    /// The clock this ledger decides by.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.shared.clock.clone()
    }

    /// Runs of workers in this process's predecessors are over; we hold the directory alone. Says how many there were.
    pub async fn reclaim(&self, worker_prefix: &str) -> StoreResult<u64> {
        self.wish(|line| Command::Reclaim(worker_prefix.to_owned(), line)).await
    }
}

async fn prepare(db: &mut SqliteDb, shared: &Shared, rng: &mut StdRng, make: bool) -> StoreResult<(Migrated, Own)> {
    let migrated = migrate::sqlite(db, make).await?;
    db.load_numbers()?;
    shared.channels.learn_all(db).await?;
    shared.channels.replace_active(db).await?;
    learn_time(db, &shared.clock).await?;
    let own = own(db, rng).await?;
    Ok((migrated, own))
}

fn not_queued(why: NotQueued) -> StoreError {
    match why {
        NotQueued::Full => StoreError::Busy("too many writes of this tenant are waiting to be stored".to_owned()),
        NotQueued::Closed => StoreError::Unavailable("the ledger has stopped".to_owned()),
    }
}

fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> StoreResult<thread::JoinHandle<()>> {
    thread::Builder::new()
        .name(name)
        .spawn(body)
        .map_err(|e| StoreError::Unavailable(format!("a thread cannot be started: {e}")))
}

impl Ledger for SqlLedger {
    fn work_wake(&self) -> &Wake {
        &self.shared.work
    }

    fn event_wake(&self) -> &Wake {
        &self.shared.events
    }

    fn fleet_wake(&self) -> &Wake {
        &self.shared.fleets
    }

    fn flow_wake(&self) -> &Wake {
        &self.shared.flows
    }

    fn timer_wake(&self) -> &Wake {
        &self.shared.timers
    }
}

#[async_trait]
impl JobStore for SqlLedger {
    async fn submit(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Submitted>> {
        let weight =
            u32::try_from(jobs.len()).unwrap_or(u32::MAX).min(u32::try_from(self.room_max).unwrap_or(u32::MAX));
        let share = jobs.first().map(|job| self.room_of.take(job.tenant, jobs.len()));
        if matches!(share, Some(None)) {
            let why = "too many submissions of this tenant are waiting to be stored";
            return Err(StoreError::Busy(why.to_owned()));
        }
        let Ok(_room) = self.room.try_acquire_many(weight) else {
            return Err(StoreError::Unavailable("too many submissions are waiting to be stored".to_owned()));
        };
        self.wish(|line| Command::Submit(jobs, line)).await
    }

    async fn find_asked(
        &self,
        tenant: TenantId,
        scope: KeyScope,
        key: String,
        hash: RequestHash,
    ) -> StoreResult<Option<Submitted>> {
        self.look(move |db| Box::pin(async move { read::find_asked(db, tenant, scope, &key, hash).await })).await
    }

    async fn find_job(&self, tenant: TenantId, job: JobId) -> StoreResult<Option<(JobRecord, Vec<RunRecord>)>> {
        self.look(move |db| Box::pin(read::find_job(db, tenant, job))).await
    }

    async fn list_jobs(
        &self,
        tenant: TenantId,
        filter: JobFilter,
        before: Option<JobId>,
        limit: u32,
    ) -> StoreResult<Page<JobRecord, JobId>> {
        let search = if filter.text.is_some() { self.searches.enter(tenant).await } else { None };
        let list = async move |db: &mut AnyDb| {
            let found = read::list_jobs(db, tenant, &filter, before, limit).await;
            drop(search);
            found
        };
        self.look(move |db| Box::pin(list(db))).await
    }

    async fn cancel_job(&self, order: JobOrder) -> StoreResult<OrderAnswer> {
        self.wish(|line| Command::Cancel(order, line)).await
    }

    async fn retry_job(&self, order: JobOrder) -> StoreResult<OrderAnswer> {
        self.wish(|line| Command::Retry(order, line)).await
    }

    async fn resolve_job(&self, tenant: TenantId, job: JobRef) -> StoreResult<Vec<JobId>> {
        self.look(move |db| Box::pin(async move { read::resolve_job(db, tenant, &job).await })).await
    }

    async fn waiting_facts(&self, tenant: TenantId, job: JobId) -> StoreResult<WaitingFacts> {
        self.look(move |db| Box::pin(read::waiting_facts(db, tenant, job))).await
    }
}

#[async_trait]
impl RunStore for SqlLedger {
    async fn claim(&self, claimants: Vec<Claimant>, rules: ClaimRules) -> StoreResult<Vec<ClaimedRun>> {
        self.is_open()?;
        if !self.shared.channels.has_active() {
            return Ok(Vec::new());
        }
        self.wish(|line| Command::Claim((claimants, rules), line)).await
    }

    async fn claim_when_queued(&self, claimants: Vec<Claimant>, rules: ClaimRules) -> StoreResult<Vec<ClaimedRun>> {
        self.is_open()?;
        let answer = self.shared.standing.put(claimants, rules);
        if self.shared.channels.has_active() {
            // Something may be there already: any transaction will do, and nobody waits for its answer.
            let (line, _) = oneshot::channel();
            let _ = self.writes.0.push(Command::Ping((), line));
        }
        answer.await.unwrap_or_else(|_| Err(StoreError::Unavailable("the ledger has stopped".to_owned())))
    }

    fn withdraw_claim(&self) {
        self.shared.standing.withdraw();
    }

    async fn find_work(&self) -> StoreResult<bool> {
        let shared = Arc::clone(&self.shared);
        self.look(move |db| Box::pin(async move { Ok(shared.channels.replace_active(db).await?.news) })).await
    }

    async fn report(&self, reports: Vec<RunReport>) -> StoreResult<Vec<ReportAnswer>> {
        self.wish(|line| Command::Report(reports, line)).await
    }

    async fn heartbeat(&self, beat: Heartbeat) -> StoreResult<Vec<(RunId, BeatAnswer)>> {
        self.wish(|line| Command::Heartbeat(beat, line)).await
    }

    async fn tell(&self, told: ToldEvents) -> StoreResult<TellAnswer> {
        self.wish(|line| Command::Tell(told, line)).await
    }

    async fn ship(
        &self,
        told: Vec<ToldEvents>,
        reports: Vec<RunReport>,
    ) -> StoreResult<(Vec<TellAnswer>, Vec<ReportAnswer>)> {
        self.wish(|line| Command::Ship((told, reports), line)).await
    }

    async fn give_back(&self, runs: Vec<RunId>) -> StoreResult<()> {
        self.wish(|line| Command::GiveBack(runs, line)).await
    }

    async fn reap(&self, times: LeaseTimes, listened: Listened) -> StoreResult<Reaped> {
        self.wish(|line| Command::Reap((times, listened), line)).await
    }

    async fn promote(&self, limit: u32) -> StoreResult<Promoted> {
        self.wish(|line| Command::Promote(limit, line)).await
    }
}

#[async_trait]
impl DeadLetterStore for SqlLedger {
    async fn list_dead_letters(
        &self,
        tenant: TenantId,
        lane: Lane,
        status: Option<DeadLetterStatus>,
        before: Option<i64>,
        limit: u32,
    ) -> StoreResult<Page<DeadLetter, i64>> {
        self.look(move |db| Box::pin(read::list_dead_letters(db, tenant, lane, status, before, limit))).await
    }

    async fn replay_dead_letters(&self, order: DeadLetterOrder) -> StoreResult<Vec<Closed>> {
        self.wish(|line| Command::Replay(order, line)).await
    }

    async fn purge_dead_letters(&self, order: DeadLetterOrder) -> StoreResult<Vec<Closed>> {
        self.wish(|line| Command::Purge(order, line)).await
    }
}

#[async_trait]
impl EventStore for SqlLedger {
    async fn events_after(&self, after: Position, filter: EventFilter, limit: u32) -> StoreResult<EventPage> {
        let salt = self.own.salt;
        self.look(move |db| Box::pin(async move { read::events_after(db, salt, after, &filter, limit).await })).await
    }

    async fn events_before(&self, before: Option<Position>, filter: EventFilter, limit: u32) -> StoreResult<EventPage> {
        let salt = self.own.salt;
        self.look(move |db| Box::pin(async move { read::events_before(db, salt, before, &filter, limit).await })).await
    }

    async fn job_events(
        &self,
        tenant: TenantId,
        job: JobId,
        after: Option<Position>,
        limit: u32,
    ) -> StoreResult<Option<Page<(Position, Event), Position>>> {
        let salt = self.own.salt;
        self.look(move |db| Box::pin(read::job_events(db, salt, tenant, job, after, limit))).await
    }

    async fn event_range(&self) -> StoreResult<(Position, Position)> {
        self.look(|db| Box::pin(read::event_range(db))).await
    }

    async fn note(&self, notice: Notice) -> StoreResult<()> {
        self.wish(|line| Command::Note(notice, line)).await
    }
}

#[async_trait]
impl TenantStore for SqlLedger {
    async fn create_tenant(&self, id: TenantId, name: String, by: Author) -> StoreResult<Option<Tenant>> {
        self.wish(|line| Command::CreateTenant((id, name, by), line)).await
    }

    async fn find_tenant(&self, id: TenantId) -> StoreResult<Option<Tenant>> {
        self.look(move |db| Box::pin(read::find_tenant(db, id))).await
    }

    async fn list_tenants(&self) -> StoreResult<Vec<Tenant>> {
        self.look(|db| Box::pin(read::list_tenants(db))).await
    }
}

#[async_trait]
impl TokenStore for SqlLedger {
    async fn create_token(&self, token: TokenRecord, by: Author) -> StoreResult<bool> {
        self.wish(|line| Command::CreateToken((Box::new(token), by), line)).await
    }

    async fn find_token(&self, id: String) -> StoreResult<Option<TokenRecord>> {
        self.look(move |db| Box::pin(async move { read::find_token(db, &id).await })).await
    }

    async fn list_tokens(&self, tenant: Option<TenantId>) -> StoreResult<Vec<TokenRecord>> {
        self.look(move |db| Box::pin(read::list_tokens(db, tenant))).await
    }

    async fn actors_named(&self, tenant: TenantId, text: String) -> StoreResult<Vec<String>> {
        self.look(move |db| Box::pin(async move { read::actors_named(db, tenant, &text).await })).await
    }

    async fn revoke_token(&self, order: RevokeToken, by: Author) -> StoreResult<Option<RevokedTokens>> {
        self.wish(|line| Command::RevokeToken((order, by), line)).await.map(|revoked| revoked.map(|revoked| *revoked))
    }
}

#[async_trait]
impl WorkerStore for SqlLedger {
    async fn register_worker(&self, worker: WorkerRecord) -> StoreResult<()> {
        self.wish(|line| Command::Register(worker, line)).await
    }

    async fn find_worker(&self, tenant: TenantId, name: WorkerName) -> StoreResult<Option<WorkerRecord>> {
        self.look(move |db| Box::pin(async move { read::find_worker(db, tenant, &name).await })).await
    }

    async fn list_workers(&self, tenant: TenantId) -> StoreResult<Vec<WorkerRecord>> {
        self.look(move |db| Box::pin(read::list_workers(db, tenant))).await
    }

    async fn list_draining(&self) -> StoreResult<Vec<(TenantId, WorkerName)>> {
        self.look(move |db| Box::pin(read::list_draining(db))).await
    }

    async fn running_by_worker(&self, tenant: TenantId) -> StoreResult<BTreeMap<String, u32>> {
        self.look(move |db| Box::pin(read::running_by_worker(db, tenant))).await
    }

    async fn drain_worker(&self, tenant: TenantId, name: WorkerName, draining: bool, by: Author) -> StoreResult<bool> {
        self.wish(|line| Command::Drain((tenant, name, draining, by), line)).await
    }
}

#[async_trait]
impl MaintenanceStore for SqlLedger {
    async fn ping(&self) -> StoreResult<()> {
        self.wish(|line| Command::Ping((), line)).await.map(drop)
    }

    async fn lane_depths(&self, tenant: Option<TenantId>) -> StoreResult<Vec<LaneDepth>> {
        self.look(move |db| Box::pin(read::lane_depths(db, tenant))).await
    }

    async fn prune(&self, retention: Retention, from: PruneMark) -> StoreResult<Pruned> {
        self.wish(|line| Command::Prune((retention, from), line)).await
    }

    async fn verify(&self, faults_max: usize) -> StoreResult<Verified> {
        self.look(move |db| Box::pin(read::verify(db, faults_max))).await
    }

    async fn now(&self) -> StoreResult<Timestamp> {
        self.wish(|line| Command::Ping((), line)).await
    }

    fn clock_status(&self) -> ClockStatus {
        self.shared.clock.status()
    }

    async fn note_time(&self) -> StoreResult<ClockStatus> {
        loop {
            // What an accepted clock moves is moved in several transactions, so that others get their turn in between.
            let (status, more) = self.wish(|line| Command::NoteTime((), line)).await?;
            if !more {
                return Ok(status);
            }
        }
    }

    async fn accept_clock(&self, by: Author, reason: Option<String>) -> StoreResult<ClockAccepted> {
        self.wish(|line| Command::AcceptClock((by, reason), line)).await
    }

    fn backlog(&self) -> (usize, usize) {
        (self.room_max - self.room.available_permits(), self.room_max)
    }

    async fn close(&self) {
        // Whoever is in the queue already is served.
        let served = async { while self.ping().await.is_ok() && !self.writes.0.is_empty() {} };
        drop(tokio::time::timeout(Duration::from_secs(10), served).await);
        self.closing.store(true, Ordering::Release);
        // The threads end when the last handle goes; they hold nothing that a sudden end could harm.
        drop(std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner)));
    }
}
