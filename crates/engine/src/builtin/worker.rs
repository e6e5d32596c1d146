//! The loop of the built-in worker: take as many runs as there are free places, run each, report each.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bowline_model::worker::Abilities;
use bowline_model::{ErrorClass, Labels, Outcome, RunError, RunId, TenantId, WorkerName};
use bowline_store::{BeatAnswer, Claimant, ClaimedRun, Heartbeat, Ledger, RunReport, StoredResult};
use bowline_supervise::Meters;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::handlers::{HandlerFuture, Handlers, Task};
use super::outbox::{self, Outbox};
use crate::dispatcher::Dispatcher;
use crate::results::{ResultError, Results};
use crate::settings::EngineSettings;

type HandlerOutcome = Result<Option<Arc<str>>, RunError>;

struct Held {
    stop: CancellationToken,
    /// Asked to stop by a person.
    canceled: bool,
    /// Told to stop because the run is no longer ours: how it ends is nobody's outcome.
    stale: bool,
    since: Instant,
    tenant: TenantId,
    /// Whether it takes one of the slots.
    in_slot: bool,
}

/// What the worker asks for next.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Room {
    wants: u32,
    /// Tenants that have their share.
    passes_over: Arc<[TenantId]>,
}

/// Runs that only wait and take no slot, at most. Beyond, they take slots like others.
const WAITING_MAX: u32 = 10_000;

/// The worker inside the server.
pub struct BuiltInWorker {
    name: WorkerName,
    abilities: Arc<Abilities>,
    handlers: Handlers,
    slots: u32,
    busy: AtomicU32,
    /// Runs in hand that only wait, besides those that are busy.
    waiting: AtomicU32,
    /// Rung when a place has become free or an outcome has been stored.
    freed: Arc<Notify>,
    outbox: Outbox,
    held: Mutex<BTreeMap<RunId, Held>>,
    ledger: Arc<dyn Ledger>,
    results: Arc<Results>,
    heartbeat: Duration,
    tasks: TaskTracker,
}

impl std::fmt::Debug for BuiltInWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BuiltInWorker").field("name", &self.name).finish_non_exhaustive()
    }
}

/// How the names of built-in workers begin. No other worker may register with it.
pub const NAME_PREFIX: &str = "builtin/";

impl BuiltInWorker {
    pub fn new(
        ledger: Arc<dyn Ledger>,
        meters: Arc<Meters>,
        settings: &EngineSettings,
        handlers: Handlers,
        results: Arc<Results>,
    ) -> anyhow::Result<Arc<Self>> {
        let name = WorkerName::new(&format!("{NAME_PREFIX}{}", settings.server_name))?;
        let abilities = Abilities { task_types: handlers.task_types().cloned().collect(), labels: Labels::default() };
        let freed = Arc::new(Notify::new());
        Ok(Arc::new(Self {
            name,
            abilities: Arc::new(abilities),
            handlers,
            slots: settings.builtin_slots,
            busy: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            outbox: Outbox::new(Arc::clone(&ledger), meters, Arc::clone(&freed)),
            freed,
            held: Mutex::default(),
            ledger,
            results,
            heartbeat: Duration::from_millis(u64::try_from(settings.lease.heartbeat_ms).unwrap_or(8_000)),
            tasks: TaskTracker::new(),
        }))
    }

    pub fn name(&self) -> &WorkerName {
        &self.name
    }

    pub fn abilities(&self) -> &Arc<Abilities> {
        &self.abilities
    }

    pub fn slots(&self) -> u32 {
        self.slots
    }

    pub fn busy(&self) -> u32 {
        self.busy.load(Ordering::Relaxed)
    }

    /// How many more runs can be taken. A place is free when its handler has returned; but outcomes that are not stored yet
    /// bound what is taken too, so that a slow ledger slows the work and not only its record.
    fn free_places(&self) -> u32 {
        let unstored = self.slots.max(2 * outbox::BATCH).saturating_sub(self.outbox.len());
        self.slots.saturating_sub(self.busy()).min(unstored)
    }

    /// What to ask for now. An eighth of the slots is kept for tenants that have few: while more than that are free,
    /// everybody's work is taken; then nothing of tenants that have a sixteenth of the slots already, and only half of what is
    /// left at a time, so that the first of the others does not take it all.
    fn room(&self) -> Room {
        let (free, kept) = (self.slots.saturating_sub(self.busy()), self.slots / 8);
        let unstored = self.free_places();
        if free > kept {
            return Room { wants: (free - kept).min(unstored), passes_over: Arc::default() };
        }
        let mut by_tenant: BTreeMap<TenantId, u32> = BTreeMap::new();
        for held in self.held().values().filter(|held| held.in_slot) {
            *by_tenant.entry(held.tenant).or_default() += 1;
        }
        let share = (self.slots / 16).max(1);
        let full = by_tenant.into_iter().filter(|(_, has)| *has >= share).map(|(tenant, _)| tenant);
        Room { wants: free.div_ceil(2).min(unstored), passes_over: full.collect() }
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<RunId, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a run to stop, if it is one of ours.
    pub fn cancel(&self, run: RunId) {
        if let Some(held) = self.held().get_mut(&run) {
            held.canceled = true;
            held.stop.cancel();
        }
    }

    /// Works until the house closes, then finishes what it has.
    pub async fn serve(self: Arc<Self>, dispatcher: Arc<Dispatcher>, stop: CancellationToken) -> anyhow::Result<()> {
        let finished = CancellationToken::new();
        let reporter = {
            let (worker, finished) = (Arc::clone(&self), finished.clone());
            self.tasks.spawn(async move { worker.outbox.serve(finished).await })
        };
        let beating = CancellationToken::new();
        let heart = self.tasks.spawn(Arc::clone(&self).beat(beating.clone()));
        loop {
            let room = self.room();
            if room.wants == 0 {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break,
                    () = self.freed.notified() => continue,
                }
            }
            let claimant = Claimant {
                worker: self.name.clone(),
                tenant: None,
                passes_over: Arc::clone(&room.passes_over),
                abilities: Arc::clone(&self.abilities),
                wants: room.wants,
                busy: self.busy(),
                slots: self.slots,
                accepts_at_once: true,
            };
            let runs = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                // A place that becomes free is worth asking for at once, but not one by one.
                () = self.more_room(&room) => continue,
                runs = dispatcher.take(claimant, Duration::from_secs(30)) => runs,
            };
            for run in runs {
                self.begin(run);
            }
        }
        // Runs that are in hand finish; whoever has not by the time the house insists is given up by its lease.
        while self.busy() > 0 || self.waiting.load(Ordering::Relaxed) > 0 {
            self.freed.notified().await;
        }
        finished.cancel();
        drop(reporter.await);
        beating.cancel();
        drop(heart.await);
        Ok(())
    }

    /// Returns when so many more places are free that asking again is worth it, or for others than before.
    async fn more_room(&self, asked: &Room) {
        loop {
            self.freed.notified().await;
            let room = self.room();
            let (now, then) = (room.wants, asked.wants);
            if now >= then.saturating_mul(2).max(then + 16)
                || (self.busy() == 0 && now > then)
                || room.passes_over != asked.passes_over
            {
                return;
            }
        }
    }

    fn begin(self: &Arc<Self>, run: ClaimedRun) {
        self.busy.fetch_add(1, Ordering::Relaxed);
        let stop = CancellationToken::new();
        let task = Task {
            run: run.run,
            job: run.job,
            tenant: run.tenant,
            payload: Arc::clone(&run.payload),
            attempt: run.attempt,
            fence: run.fence,
            trace_id: run.trace_id.clone(),
            stop: stop.clone(),
        };
        let Some(handler) = self.handlers.find(&run.task_type).cloned() else {
            let error = RunError::new(ErrorClass::Handler, format!("no handler for {}", run.task_type));
            self.end(&run, Err::<Done, _>(error), false, true);
            return;
        };
        // What a handler logs has the job and the run in it.
        let span = tracing::info_span!("run", job.id = %run.job, run.id = %run.run, attempt = run.attempt);
        let entered = span.enter();
        // Work that is done at the first look needs no task of its own.
        let mut future: HandlerFuture = match std::panic::catch_unwind(AssertUnwindSafe(|| handler.handle(task))) {
            Ok(future) => future,
            Err(panic) => return self.end(&run, Err::<Done, _>(broken(&*panic)), false, true),
        };
        let mut context = Context::from_waker(Waker::noop());
        match std::panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context))) {
            Ok(Poll::Ready(outcome)) if !self.is_large(&outcome) => return self.end(&run, outcome, false, true),
            // Its result is stored first, in a task of its own.
            Ok(Poll::Ready(outcome)) => future = Box::pin(std::future::ready(outcome)),
            Err(panic) => return self.end(&run, Err::<Done, _>(broken(&*panic)), false, true),
            Ok(Poll::Pending) => {}
        }
        drop(entered);
        let in_slot = !(handler.only_waits() && self.waiting.load(Ordering::Relaxed) < WAITING_MAX);
        if !in_slot {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            self.busy.fetch_sub(1, Ordering::Relaxed);
            self.freed.notify_one();
        }
        let (tenant, since) = (run.tenant, Instant::now());
        let held = Held { stop: stop.clone(), canceled: false, stale: false, since, tenant, in_slot };
        self.held().insert(run.run, held);
        let worker = Arc::clone(self);
        let work = async move {
            let limit = Duration::from_millis(run.timeout_ms);
            let guarded = CatchPanic(future);
            let outcome = match tokio::time::timeout(limit, guarded).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    stop.cancel();
                    Err(RunError::new(ErrorClass::Timeout, format!("the run took longer than {} ms", run.timeout_ms)))
                }
            };
            let outcome = worker.store_result(&run, &stop, outcome).await;
            let (canceled, stale) =
                worker.held().remove(&run.run).map_or((false, false), |held| (held.canceled, held.stale));
            if (stale || canceled)
                && let Ok(Done::Stored(result)) = &outcome
            {
                worker.results.discard(run.tenant, result).await;
            }
            if stale {
                worker.free(in_slot);
            } else {
                worker.end(&run, outcome, canceled, in_slot);
            }
        };
        self.tasks.spawn(work.instrument(span));
    }

    fn is_large(&self, outcome: &HandlerOutcome) -> bool {
        matches!(outcome, Ok(Some(result)) if !self.results.is_inline(result))
    }

    /// A result that is too large for the ledger goes to the object store before the run is reported. The run is held meanwhile,
    /// so its lease is renewed.
    async fn store_result(
        &self,
        run: &ClaimedRun,
        stop: &CancellationToken,
        outcome: HandlerOutcome,
    ) -> Result<Done, RunError> {
        let result = match outcome {
            Ok(Some(result)) if !self.results.is_inline(&result) => result,
            other => return other.map(Done::Inline),
        };
        let mut pause = STORE_PAUSE;
        for _ in 1..STORE_TRIES {
            match self.results.store(run.tenant, run.run, &result).await {
                Ok(stored) => return Ok(Done::Stored(stored)),
                Err(error @ ResultError::TooLarge { .. }) => return Err(not_stored(&error)),
                Err(error) => tracing::warn!(run.id = %run.run, %error, "cannot store a result, retrying"),
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause) => pause *= 2,
            }
        }
        let stored = self.results.store(run.tenant, run.run, &result).await;
        stored.map(Done::Stored).map_err(|error| not_stored(&error))
    }

    fn end(&self, run: &ClaimedRun, outcome: Result<impl Into<Done>, RunError>, canceled: bool, in_slot: bool) {
        let (outcome, error, done) = match outcome {
            _ if canceled => (Outcome::Canceled, None, Done::Inline(None)),
            Ok(done) => (Outcome::Succeeded, None, done.into()),
            Err(error) => (Outcome::Failed(error.class), Some(error), Done::Inline(None)),
        };
        let (result, stored_result) = match done {
            Done::Inline(result) => (result, None),
            Done::Stored(stored) => (None, Some(stored)),
        };
        let report = RunReport {
            exit_code: None,
            run: run.run,
            job: Some(run.job),
            worker: self.name.clone(),
            tenant: None,
            fence: Some(run.fence),
            outcome,
            error,
            result,
            stored_result,
            last_seq: 0,
        };
        self.outbox.put(report);
        self.free(in_slot);
    }

    fn free(&self, in_slot: bool) {
        let place = if in_slot { &self.busy } else { &self.waiting };
        place.fetch_sub(1, Ordering::Relaxed);
        self.freed.notify_one();
    }

    /// Renews the leases of runs that take long or wait for their outcome to be stored, and stops those that are not ours any
    /// more.
    async fn beat(self: Arc<Self>, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(self.heartbeat) => {}
            }
            let young = self.heartbeat / 2;
            let mut runs = self.outbox.runs_older_than(young);
            runs.extend(self.held().iter().filter(|(_, h)| h.since.elapsed() > young).map(|(run, _)| *run));
            if runs.is_empty() {
                continue;
            }
            let beat = Heartbeat { worker: self.name.clone(), tenant: None, runs, bare: false };
            match self.ledger.heartbeat(beat).await {
                Ok(answers) => {
                    for (run, answer) in answers {
                        match answer {
                            BeatAnswer::Renewed => {}
                            BeatAnswer::Cancel => self.cancel(run),
                            BeatAnswer::Stale => {
                                if let Some(held) = self.held().get_mut(&run) {
                                    held.stale = true;
                                    held.stop.cancel();
                                }
                            }
                        }
                    }
                }
                Err(error) => tracing::warn!(%error, "cannot renew the leases of the built-in worker, retrying"),
            }
        }
    }
}

/// A result of a run that ended well, where it is kept.
enum Done {
    Inline(Option<Arc<str>>),
    Stored(StoredResult),
}

impl From<Option<Arc<str>>> for Done {
    fn from(result: Option<Arc<str>>) -> Self {
        Self::Inline(result)
    }
}

/// How often the object store is tried, and how long after the first failure.
const STORE_TRIES: u32 = 6;
const STORE_PAUSE: Duration = Duration::from_millis(250);

fn not_stored(error: &ResultError) -> RunError {
    match error {
        // The same handler would make the same result.
        ResultError::TooLarge { .. } => RunError::new(ErrorClass::Permanent, error.to_string()),
        ResultError::Store(_) => RunError::new(ErrorClass::Transient, error.to_string()),
    }
}

fn broken(panic: &(dyn std::any::Any + Send)) -> RunError {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    RunError::new(ErrorClass::Handler, format!("the handler panicked: {}", text.unwrap_or_default()))
}

/// A handler whose panic is an outcome.
struct CatchPanic(HandlerFuture);

impl std::future::Future for CatchPanic {
    type Output = HandlerOutcome;

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match std::panic::catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(cx))) {
            Ok(poll) => poll,
            Err(panic) => Poll::Ready(Err(broken(&*panic))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use bowline_backbone::MemoryBlobs;
    use bowline_model::{TaskType, Timestamp};
    use bowline_store::Retention;
    use tokio::task::JoinSet;

    use super::*;
    use crate::builtin::Handler;
    use crate::fixture::{claimed, ledger, tenant, unavailable_ledger};
    use crate::quotas::{QuotaLimits, Quotas};

    const SLOTS: u32 = 64;

    fn worker() -> Arc<BuiltInWorker> {
        worker_with(Handlers::standard(), &Quotas::new(QuotaLimits::default()))
    }

    fn settings() -> EngineSettings {
        EngineSettings {
            weights: Default::default(),
            strategy: Default::default(),
            lease: Default::default(),
            retention: Retention { finished_jobs_ms: 1, events_ms: 1 },
            job_deadline_ms: None,
            command_retries: Default::default(),
            builtin_slots: SLOTS,
            egress: Default::default(),
            quotas: QuotaLimits::default(),
            server_name: "test".to_owned(),
            seed: 1,
        }
    }

    fn worker_with(handlers: Handlers, quotas: &Arc<Quotas>) -> Arc<BuiltInWorker> {
        let results = Results::new(Arc::new(MemoryBlobs::default()), Arc::clone(quotas));
        BuiltInWorker::new(ledger(), Meters::new(), &settings(), handlers, results).expect("a worker")
    }

    /// A run of a task type, as the worker is handed it.
    fn run_of(task_type: &str, payload: &str, n: u8) -> ClaimedRun {
        let task_type = TaskType::new(task_type).expect("a name");
        ClaimedRun { task_type, payload: payload.into(), ..claimed(tenant(1), "builtin/test", n) }
    }

    /// Runs in slots, runs that only wait, and outcomes that are not stored yet.
    fn counts(worker: &BuiltInWorker) -> (u32, u32, u32) {
        (worker.busy(), worker.waiting.load(Ordering::Relaxed), worker.outbox.len())
    }

    /// Does what it has to do when the gate opens.
    struct Gated {
        gate: Arc<Notify>,
        only_waits: bool,
    }

    impl Handler for Gated {
        fn handle(&self, task: Task) -> HandlerFuture {
            let gate = Arc::clone(&self.gate);
            Box::pin(async move {
                gate.notified().await;
                Ok(Some(task.payload))
            })
        }

        fn only_waits(&self) -> bool {
            self.only_waits
        }
    }

    /// A worker that can do `work`, which takes a slot, and `wait`, which takes none. Both end when the gate opens.
    fn gated_worker(quotas: &Arc<Quotas>) -> (Arc<BuiltInWorker>, Arc<Notify>) {
        let (gate, mut handlers) = (Arc::new(Notify::new()), Handlers::standard());
        for (name, only_waits) in [("work", false), ("wait", true)] {
            let handler = Gated { gate: Arc::clone(&gate), only_waits };
            handlers.add(TaskType::new(name).expect("a name"), Arc::new(handler));
        }
        (worker_with(handlers, quotas), gate)
    }

    async fn until_idle(worker: &BuiltInWorker) {
        while worker.busy() > 0 || worker.waiting.load(Ordering::Relaxed) > 0 {
            worker.freed.notified().await;
        }
    }

    /// Runs of a tenant that take slots, or only wait.
    fn hold(worker: &BuiltInWorker, who: u8, count: u32, in_slot: bool) {
        for n in 0..count {
            let (stop, since, tenant) = (CancellationToken::new(), Instant::now(), tenant(who));
            let held = Held { stop, canceled: false, stale: false, since, tenant, in_slot };
            let mut random = [who; 10];
            random[1..5].copy_from_slice(&(n + 1_000 * u32::from(in_slot)).to_be_bytes());
            worker.held().insert(RunId::mint(Timestamp::from_millis(1), random), held);
        }
        if in_slot {
            worker.busy.fetch_add(count, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn the_last_slots_are_for_tenants_that_have_few() {
        let worker = worker();
        assert_eq!(worker.room(), Room { wants: SLOTS - SLOTS / 8, passes_over: Arc::default() });
        hold(&worker, 1, SLOTS - SLOTS / 8 - 1, true);
        assert_eq!(worker.room(), Room { wants: 1, passes_over: Arc::default() }, "the first tenant may take one more");
        // One below a sixteenth, exactly that much, and many that only wait.
        hold(&worker, 2, SLOTS / 16 - 1, true);
        hold(&worker, 3, 100, false);
        let room = worker.room();
        assert_eq!((room.wants, &*room.passes_over), (3, &[tenant(1)][..]));
        hold(&worker, 4, SLOTS / 16, true);
        let room = worker.room();
        assert_eq!((room.wants, &*room.passes_over), (1, &[tenant(1), tenant(4)][..]));
        hold(&worker, 2, 2, true);
        assert_eq!(worker.room().wants, 0);
    }

    #[tokio::test]
    async fn runs_that_only_wait_take_no_slot_until_too_many_wait() {
        let (worker, _gate) = gated_worker(&Quotas::new(QuotaLimits::default()));
        worker.begin(run_of("work", "null", 1));
        assert_eq!(counts(&worker), (1, 0, 0), "work takes a slot");
        worker.begin(run_of("wait", "null", 2));
        worker.begin(run_of("sleep", r#"{"ms": 3600000}"#, 3));
        assert_eq!(counts(&worker), (1, 2, 0));
        worker.waiting.store(WAITING_MAX - 1, Ordering::Relaxed);
        worker.begin(run_of("wait", "null", 4));
        assert_eq!(counts(&worker), (1, WAITING_MAX, 0));
        worker.begin(run_of("wait", "null", 5));
        assert_eq!(counts(&worker), (2, WAITING_MAX, 0), "one more than may wait takes a slot");
        assert_eq!(worker.held().values().filter(|held| held.in_slot).count(), 2);
    }

    #[tokio::test]
    async fn a_run_leaves_its_place_when_it_ends() {
        let (worker, gate) = gated_worker(&Quotas::new(QuotaLimits::default()));
        worker.begin(run_of("echo", "null", 1));
        assert_eq!(counts(&worker), (0, 0, 1), "what is done at once is an outcome at once");
        worker.begin(run_of("nobody.knows", "null", 2));
        worker.begin(run_of("fail", r#"{"class": "handler"}"#, 3));
        assert_eq!(counts(&worker), (0, 0, 3), "and so is a failure or a panic");
        worker.begin(run_of("work", "null", 4));
        worker.begin(run_of("wait", "null", 5));
        assert_eq!(counts(&worker), (1, 1, 3));
        gate.notify_waiters();
        until_idle(&worker).await;
        assert_eq!(counts(&worker), (0, 0, 5));
        assert!(worker.held().is_empty());
    }

    #[tokio::test]
    async fn a_run_that_is_canceled_stops() {
        let worker = worker();
        let (kept, canceled) = (run_of("sleep", r#"{"ms": 3600000}"#, 1), run_of("sleep", r#"{"ms": 3600000}"#, 2));
        let id = canceled.run;
        worker.begin(kept);
        worker.begin(canceled);
        worker.cancel(id);
        while counts(&worker).1 > 1 {
            worker.freed.notified().await;
        }
        assert_eq!(counts(&worker), (0, 1, 1), "the other one goes on");
    }

    #[tokio::test]
    async fn outcomes_that_are_not_stored_yet_bound_what_is_taken() {
        let worker = worker();
        let fill = |outcomes: u32| {
            while worker.outbox.len() < outcomes {
                worker.begin(run_of("noop", "null", 1));
            }
            worker.room().wants
        };
        let all = SLOTS - SLOTS / 8;
        assert_eq!(fill(2 * outbox::BATCH - all), all);
        assert_eq!(fill(2 * outbox::BATCH - 1), 1);
        assert_eq!(fill(2 * outbox::BATCH), 0);
        assert_eq!(fill(2 * outbox::BATCH + 1), 0);
    }

    #[tokio::test]
    async fn the_worker_asks_again_when_much_more_is_free_or_for_others() {
        let worker = worker();
        let asks_again = |busy: u32, wants: u32| {
            worker.busy.store(busy, Ordering::Relaxed);
            worker.freed.notify_one();
            let asked = Room { wants, passes_over: Arc::default() };
            pin!(worker.more_room(&asked)).poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        let free = SLOTS - SLOTS / 8;
        assert!(!asks_again(free - 16, 1) && asks_again(free - 17, 1), "16 more than a few");
        assert!(!asks_again(free - 39, 20) && asks_again(free - 40, 20), "twice as many");
        assert!(!asks_again(1, free - 5), "some are busy, and it is not much more");
        assert!(asks_again(0, free - 5), "nobody is busy: whatever is free is asked for");
        assert!(!asks_again(0, free), "it has been");
        worker.busy.store(0, Ordering::Relaxed);
        hold(&worker, 1, free, true);
        assert_eq!(&*worker.room().passes_over, &[tenant(1)][..]);
        assert!(asks_again(free, worker.room().wants), "the first tenant has its share by now");
    }

    #[tokio::test]
    async fn a_large_result_goes_to_the_object_store_before_its_run_ends() {
        let quotas = Quotas::new(QuotaLimits { inline_result_bytes: 8, ..QuotaLimits::default() });
        let stored = || quotas.usage(tenant(1)).stored_bytes;
        let (worker, gate) = gated_worker(&quotas);
        worker.begin(run_of("echo", "12345678", 1));
        assert_eq!((counts(&worker), stored()), ((0, 0, 1), 0), "a small one goes with the outcome");
        worker.begin(run_of("echo", "123456789", 2));
        assert_eq!((counts(&worker), stored()), ((1, 0, 1), 0), "the run goes on until its result is stored");
        until_idle(&worker).await;
        assert_eq!((counts(&worker), stored()), ((0, 0, 2), 9));
        for (payload, n, total) in [("12345678", 3, 9), ("123456789", 4, 18)] {
            worker.begin(run_of("work", payload, n));
            gate.notify_waiters();
            until_idle(&worker).await;
            assert_eq!(stored(), total, "{payload}");
        }
        // Whoever cancels a run wants no result of it.
        let canceled = run_of("echo", "123456789", 5);
        let id = canceled.run;
        worker.begin(canceled);
        worker.cancel(id);
        until_idle(&worker).await;
        assert_eq!((counts(&worker), stored()), ((0, 0, 5), 18));
    }

    #[tokio::test]
    async fn a_worker_that_stops_finishes_what_it_has() {
        for name in ["work", "wait"] {
            let (worker, gate) = gated_worker(&Quotas::new(QuotaLimits::default()));
            worker.begin(run_of(name, "null", 1));
            let stop = CancellationToken::new();
            stop.cancel();
            let dispatcher = Dispatcher::new(unavailable_ledger(), &settings());
            let mut serving = JoinSet::new();
            serving.spawn(Arc::clone(&worker).serve(dispatcher, stop));
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert!(serving.try_join_next().is_none(), "{name} is not done");
            gate.notify_waiters();
            serving.join_next().await.expect("a task").expect("no panic").expect("served to the end");
            assert_eq!(counts(&worker), (0, 0, 0), "its outcome has been reported");
        }
    }
}
