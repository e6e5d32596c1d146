//! Where promises are tried: an open ledger, a clock that only the promise turns, and forms that are filled in already.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bowline_model::idempotency::{KeyScope, RequestHash};
use bowline_model::job::OnLost;
use bowline_model::lane::LaneWeights;
use bowline_model::lease::LeaseTimes;
use bowline_model::worker::{Abilities, Strategy};
use bowline_model::{
    ErrorClass, Event, EventKind, Jitter, JobId, JobPolicy, JobStatus, Labels, Lane, Outcome, RetryPolicy, RunError,
    RunId, TaskType, TenantId, Timestamp, WorkerName,
};

use crate::{
    BeatAnswer, ClaimRules, Claimant, ClaimedRun, Clock, Closed, DeadLetter, DeadLetterChoice, DeadLetterOrder,
    EventFilter, Heartbeat, JobOrder, JobRecord, Ledger, Listened, ManualClock, NewJob, OrderAnswer, Origin, Position,
    Reaped, ReportAnswer, RunRecord, RunReport, Submitted, TellAnswer, ToldEvent, ToldEvents, WakeListener,
};

/// The task type of jobs and workers that do not say otherwise.
pub const TYPE: &str = "mail.send";
/// The lease times of every promise.
pub const TIMES: LeaseTimes =
    LeaseTimes { ttl_ms: 3_000, accept_ms: 1_000, heartbeat_ms: 500, deadline_grace_ms: 1_000 };
/// Far longer than any state takes to come, even on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// An open ledger and everything one needs to ask it something.
#[derive(Debug)]
pub struct Bench {
    pub ledger: Arc<dyn Ledger>,
    pub clock: Arc<ManualClock>,
    /// Whose jobs these are, unless a promise says otherwise.
    pub tenant: TenantId,
    /// Somebody who must never see any of it.
    pub neighbour: TenantId,
    closed: AtomicBool,
}

impl Bench {
    /// Where the clock stands when a promise begins.
    pub const START: Timestamp = Timestamp::from_millis(1_767_398_400_000);
    /// How long the ledger must be told to remember a key.
    pub const KEY_TTL_MS: i64 = 60_000;
    /// How many submissions the ledger must be told to let wait.
    pub const BACKLOG_MAX: usize = 2_000;

    /// A bench around an empty ledger that goes by this clock.
    pub fn new(ledger: Arc<dyn Ledger>, clock: Arc<ManualClock>) -> Self {
        let tenant = TenantId::mint(Self::START, [1; 10]);
        let neighbour = TenantId::mint(Self::START, [2; 10]);
        Self { ledger, clock, tenant, neighbour, closed: AtomicBool::new(false) }
    }

    /// Tries a promise, and then whether the ledger still agrees with its own history.
    pub async fn keeps(&self, promise: impl AsyncFnOnce(&Self)) {
        promise(self).await;
        if !self.closed.load(Ordering::Relaxed) {
            self.verifies().await;
        }
    }

    /// Closes the ledger, once it has been verified; afterwards it cannot be.
    pub async fn close(&self) {
        self.verifies().await;
        self.ledger.close().await;
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Every job equals the fold of its events, and everything that waits has its one row.
    pub async fn verifies(&self) {
        let verified = self.ledger.verify(20).await.expect("a ledger can be verified at any time");
        assert!(verified.faults.is_empty(), "verify found {:#?}", verified.faults);
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn pass_ms(&self, millis: i64) {
        self.clock.advance_ms(millis);
    }

    /// Looks until the state is there. Only for what another thread brings about; never for the time that passes.
    pub async fn until<T, E: Debug>(&self, what: &str, mut look: impl AsyncFnMut() -> Result<T, E>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match look().await {
                Ok(state) => return state,
                Err(seen) => assert!(Instant::now() < deadline, "waited in vain for {what}; last seen: {seen:?}"),
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Whether a bell has rung since it was heard the last time. What a write rings has rung when it is answered.
pub async fn has_rung(bell: &mut WakeListener) -> bool {
    tokio::select! {
        biased;
        () = bell.rung() => true,
        () = std::future::ready(()) => false,
    }
}

/// Jobs, and what people order about them.
impl Bench {
    /// A fresh job id; later ones are greater, on whichever bench.
    pub fn job_id(&self) -> JobId {
        static MINTED: AtomicU64 = AtomicU64::new(0);
        let mut entropy = [0; 10];
        entropy[2..].copy_from_slice(&MINTED.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        JobId::mint(self.now(), entropy)
    }

    /// A job nobody has asked for yet.
    pub fn job(&self) -> NewJob {
        NewJob {
            flow: None,
            id: self.job_id(),
            tenant: self.tenant,
            lane: Lane::Default,
            task_type: task_type(TYPE),
            requires: Labels::default(),
            priority: 0,
            payload: "{}".into(),
            policy: None,
            run_at: None,
            keys: Vec::new(),
            hash: body("{}"),
            origin: Origin { actor: "tester".into(), request_id: "req-1".into(), ..Origin::default() },
            replay_of: None,
            fleet: None,
        }
    }

    /// A job whose request had this key and this body.
    pub fn keyed(&self, key: &str, text: &str) -> NewJob {
        NewJob { keys: vec![idempotency_key(key)], hash: body(text), ..self.job() }
    }

    /// What becomes of one job.
    pub async fn ask(&self, job: NewJob) -> Submitted {
        let mut answers = self.ask_all(vec![job]).await;
        assert_eq!(answers.len(), 1, "one job has one answer");
        answers.remove(0)
    }

    pub async fn ask_all(&self, jobs: Vec<NewJob>) -> Vec<Submitted> {
        self.ledger.submit(jobs).await.expect("the ledger takes jobs")
    }

    /// Stores a job that must be new.
    pub async fn submit(&self, job: NewJob) -> JobId {
        match self.ask(job).await {
            Submitted::Accepted { id, .. } => id,
            other => panic!("a new job should be accepted, but the answer is {other:?}"),
        }
    }

    /// Stores as many plain jobs, in one batch.
    pub async fn submit_many(&self, count: usize) -> Vec<JobId> {
        let jobs: Vec<NewJob> = (0..count).map(|_| self.job()).collect();
        let ids = jobs.iter().map(|job| job.id).collect();
        for answer in self.ask_all(jobs).await {
            assert!(matches!(answer, Submitted::Accepted { .. }), "{answer:?}");
        }
        ids
    }

    /// A job of ours, which must be there, and its runs.
    pub async fn find(&self, job: JobId) -> (JobRecord, Vec<RunRecord>) {
        let found = self.ledger.find_job(self.tenant, job).await.expect("the ledger can be read");
        found.unwrap_or_else(|| panic!("job {job} should be there"))
    }

    pub async fn status(&self, job: JobId) -> JobStatus {
        self.find(job).await.0.state.status
    }

    pub fn order(&self, job: JobId) -> JobOrder {
        JobOrder { tenant: self.tenant, job, by: "ann".into(), reason: Some("because".to_owned()) }
    }

    pub async fn cancel(&self, job: JobId) -> OrderAnswer {
        self.ledger.cancel_job(self.order(job)).await.expect("the ledger takes orders")
    }

    pub async fn retry(&self, job: JobId) -> OrderAnswer {
        self.ledger.retry_job(self.order(job)).await.expect("the ledger takes orders")
    }

    /// Queues everything that is due by now; how much that was.
    pub async fn promote(&self) -> u64 {
        self.ledger.promote(1_000).await.expect("the ledger looks at its timers").moved
    }
}

/// Runs, as their workers see them.
impl Bench {
    /// A worker of ours that can do the usual and wants one run.
    pub fn worker(&self, name: &str) -> Claimant {
        Claimant {
            worker: worker_name(name),
            tenant: Some(self.tenant),
            passes_over: Arc::default(),
            abilities: abilities(&[TYPE]),
            wants: 1,
            busy: 0,
            slots: 8,
            accepts_at_once: false,
        }
    }

    /// A worker inside the server: everybody's runs, confirmed with the hand-out.
    pub fn insider(&self, wants: u32) -> Claimant {
        Claimant { tenant: None, wants, slots: wants.max(1), accepts_at_once: true, ..self.worker("inside") }
    }

    pub async fn claim(&self, claimant: Claimant) -> Vec<ClaimedRun> {
        self.claim_by(Strategy::RoundRobin, vec![claimant]).await
    }

    pub async fn claim_by(&self, strategy: Strategy, claimants: Vec<Claimant>) -> Vec<ClaimedRun> {
        let rules = ClaimRules { weights: LaneWeights::default(), strategy };
        self.ledger.claim(claimants, rules).await.expect("the ledger hands out runs")
    }

    /// The next run, which must be there, handed to worker `w1` and not yet confirmed.
    pub async fn claim_one(&self) -> ClaimedRun {
        let mut runs = self.claim(self.worker("w1")).await;
        assert_eq!(runs.len(), 1, "one run should be waiting");
        runs.remove(0)
    }

    pub async fn nothing_to_claim(&self) {
        let runs = self.claim(Claimant { wants: 100, slots: 100, ..self.worker("w1") }).await;
        assert!(runs.is_empty(), "nothing should be waiting, but there is {runs:?}");
    }

    /// The next run, confirmed by its worker.
    pub async fn start_one(&self) -> ClaimedRun {
        let run = self.claim_one().await;
        assert_eq!(self.beat(&run).await, BeatAnswer::Renewed);
        run
    }

    /// A new job whose first run is confirmed.
    pub async fn running(&self, job: NewJob) -> ClaimedRun {
        let id = self.submit(job).await;
        let run = self.start_one().await;
        assert_eq!(run.job, id, "no other job should have been waiting");
        run
    }

    pub fn heartbeat(&self, runs: &[&ClaimedRun]) -> Heartbeat {
        let worker = runs.first().map_or_else(|| worker_name("w1"), |run| run.worker.clone());
        Heartbeat { worker, tenant: Some(self.tenant), runs: runs.iter().map(|run| run.run).collect(), bare: false }
    }

    /// A sign of life about one run, from the worker that has it.
    pub async fn beat(&self, run: &ClaimedRun) -> BeatAnswer {
        let answers = self.ledger.heartbeat(self.heartbeat(&[run])).await.expect("the ledger hears workers");
        assert_eq!(answers.len(), 1, "one run has one answer");
        assert_eq!(answers[0].0, run.run, "the answer is about the run that was named");
        answers[0].1
    }

    pub fn report_of(&self, run: &ClaimedRun, outcome: Outcome) -> RunReport {
        let error = match outcome {
            Outcome::Failed(class) => Some(RunError::new(class, "it did not work")),
            Outcome::Succeeded | Outcome::Canceled => None,
        };
        RunReport {
            exit_code: None,
            run: run.run,
            job: Some(run.job),
            worker: run.worker.clone(),
            tenant: Some(run.tenant),
            fence: Some(run.fence),
            outcome,
            error,
            result: None,
            stored_result: None,
            last_seq: 0,
        }
    }

    pub async fn report(&self, report: RunReport) -> ReportAnswer {
        let answers = self.ledger.report(vec![report]).await.expect("the ledger hears reports");
        assert_eq!(answers.len(), 1, "one report has one answer");
        answers[0]
    }

    pub async fn succeed(&self, run: &ClaimedRun) -> ReportAnswer {
        self.report(self.report_of(run, Outcome::Succeeded)).await
    }

    pub async fn fail(&self, run: &ClaimedRun, class: ErrorClass) -> ReportAnswer {
        self.report(self.report_of(run, Outcome::Failed(class))).await
    }

    /// What worker and run say when they tell these numbers, each with its own number as detail.
    pub fn telling(&self, run: &ClaimedRun, seqs: &[u64]) -> ToldEvents {
        let events =
            seqs.iter().map(|seq| ToldEvent { seq: *seq, at: None, detail: format!("{{\"n\":{seq}}}").into() });
        ToldEvents {
            run: run.run,
            worker: run.worker.clone(),
            tenant: Some(run.tenant),
            fence: Some(run.fence),
            events: events.collect(),
        }
    }

    pub async fn tell(&self, told: ToldEvents) -> TellAnswer {
        self.ledger.tell(told).await.expect("the ledger hears events")
    }

    /// Since the start, until now.
    pub fn listened(&self) -> Listened {
        Listened { since: Self::START, until: self.now() }
    }

    /// Judges all leases, as somebody who has been listening since the start.
    pub async fn reap(&self) -> Reaped {
        self.reap_listened(self.listened()).await
    }

    pub async fn reap_since(&self, watermark: Timestamp) -> Reaped {
        self.reap_listened(Listened { since: watermark, until: self.now() }).await
    }

    pub async fn reap_listened(&self, listened: Listened) -> Reaped {
        self.ledger.reap(TIMES, listened).await.expect("the ledger judges leases")
    }

    /// Lets a whole lease pass in silence, and judges.
    pub async fn silence(&self) -> Reaped {
        self.pass_ms(TIMES.ttl_ms + 1);
        self.reap().await
    }

    /// A job that failed for good and lies in the dead letters.
    pub async fn dead(&self, job: NewJob) -> JobId {
        let run = self.running(job).await;
        assert_eq!(self.fail(&run, ErrorClass::Permanent).await, ReportAnswer::Recorded(JobStatus::Dead));
        run.job
    }
}

/// Dead letters and events.
impl Bench {
    pub async fn dead_letters(&self) -> Vec<DeadLetter> {
        let page = self.ledger.list_dead_letters(self.tenant, Lane::Default, None, None, 100).await;
        page.expect("the ledger can be read").items
    }

    pub fn about(&self, choice: DeadLetterChoice) -> DeadLetterOrder {
        DeadLetterOrder {
            tenant: self.tenant,
            lane: Lane::Default,
            choice,
            by: "ann".into(),
            reason: "the mail server is back".to_owned(),
        }
    }

    pub async fn replay(&self, job: JobId) -> Closed {
        let order = self.about(DeadLetterChoice::Jobs(vec![job]));
        let mut closed = self.ledger.replay_dead_letters(order).await.expect("the ledger takes orders");
        assert_eq!(closed.len(), 1, "one job has one answer");
        closed.remove(0)
    }

    pub async fn purge(&self, job: JobId) -> Closed {
        let order = self.about(DeadLetterChoice::Jobs(vec![job]));
        let mut closed = self.ledger.purge_dead_letters(order).await.expect("the ledger takes orders");
        assert_eq!(closed.len(), 1, "one job has one answer");
        closed.remove(0)
    }

    /// All events of a job, in order.
    pub async fn history(&self, job: JobId) -> Vec<(Position, Event)> {
        let page = self.ledger.job_events(self.tenant, job, None, 10_000).await.expect("the ledger can be read");
        page.unwrap_or_else(|| panic!("job {job} should have events")).items
    }

    /// What happened to a job, in order.
    pub async fn kinds(&self, job: JobId) -> Vec<EventKind> {
        self.history(job).await.iter().map(|(_, event)| event.kind).collect()
    }

    /// The stream from its beginning, once at least `count` events can be seen in it. Readers may be behind writers by
    /// as much as the slowest writer takes, so this waits; nothing less than `count` is an answer.
    pub async fn stream(&self, filter: EventFilter, count: usize) -> Vec<(Position, Event)> {
        self.until("the events to be seen", async || {
            let (mut seen, mut after) = (Vec::new(), Position::default());
            loop {
                let page = self.ledger.events_after(after, filter.clone(), 100).await.expect("the ledger can be read");
                seen.extend(page.events);
                after = page.end;
                if !page.more {
                    break;
                }
            }
            if seen.len() >= count { Ok(seen) } else { Err(seen.len()) }
        })
        .await
    }
}

pub fn task_type(text: &str) -> TaskType {
    TaskType::new(text).expect("promises use good names")
}

pub fn worker_name(text: &str) -> WorkerName {
    WorkerName::new(text).expect("promises use good names")
}

pub fn labels(pairs: &[(&str, &str)]) -> Labels {
    let map = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Labels::new(map).expect("promises use good labels")
}

/// The ability to do these types of work, without labels.
pub fn abilities(types: &[&str]) -> Arc<Abilities> {
    let task_types = types.iter().copied().map(task_type).collect();
    Arc::new(Abilities { task_types, labels: Labels::default() })
}

pub fn idempotency_key(key: &str) -> (KeyScope, String) {
    (KeyScope::Idempotency, key.to_owned())
}

pub fn external_id(key: &str) -> (KeyScope, String) {
    (KeyScope::External, key.to_owned())
}

/// The hash of a request with this body.
pub fn body(text: &str) -> RequestHash {
    RequestHash::of_parts(&[text.as_bytes()])
}

/// A policy with as many attempts, whose backoff is exactly 1 s, 2 s, 4 s.
pub fn attempts(max: u32) -> Option<Arc<JobPolicy>> {
    let retry =
        RetryPolicy { max_attempts: max, base_ms: 1_000, factor: 2.0, jitter: Jitter::None, ..RetryPolicy::default() };
    policy(JobPolicy { retry, ..JobPolicy::default() })
}

/// A policy that ends the job when this many leases and one more are lost.
pub fn losses(max: u32) -> Option<Arc<JobPolicy>> {
    let retry = RetryPolicy { max_losses: max, ..RetryPolicy::default() };
    policy(JobPolicy { retry, ..JobPolicy::default() })
}

/// A policy for work that must not be done twice.
pub fn at_most_once() -> Option<Arc<JobPolicy>> {
    policy(JobPolicy { on_lost: OnLost::Error, ..JobPolicy::default() })
}

pub fn policy(policy: JobPolicy) -> Option<Arc<JobPolicy>> {
    policy.check().expect("promises use good policies");
    Some(Arc::new(policy))
}

/// The runs of these, for comparing.
pub fn run_ids(runs: &[ClaimedRun]) -> Vec<RunId> {
    runs.iter().map(|run| run.run).collect()
}

/// The jobs of these, for comparing.
pub fn job_ids(runs: &[ClaimedRun]) -> Vec<JobId> {
    runs.iter().map(|run| run.job).collect()
}
