//! A ledger that fails once, at every place where it can, in every way it can there. Whoever asks again by the same key
//! ends where he would have ended without the fault, and the ledger agrees with its own history.

use std::cell::RefCell;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use bowline_model::audit::Chain;
use bowline_model::{ErrorClass, EventKind, JobId, JobStatus, Outcome, RunStatus};
use bowline_store::conformance::{Bench, TIMES, abilities, attempts, body, external_id, idempotency_key, task_type};
use bowline_store::{
    AuditFilter, AuditFrom, BeatAnswer, ClaimRules, Claimant, ClaimedRun, Closed, DeadLetterChoice, Ledger,
    ManualClock, NewJob, OrderAnswer, ReportAnswer, RunReport, StoreError, StoreResult, Submitted, TellAnswer,
};
use bowline_store_sql::db::{FaultPlan, Injected, Moment};
use bowline_store_sql::{SqlLedger, SqlSettings};
use tokio::task::LocalSet;

/// Fails once, at the `n`th operation from when it was armed, and remembers what it saw.
#[derive(Debug, Default)]
struct OneFault(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    armed: bool,
    strike: Option<(usize, Injected)>,
    moments: Vec<Moment>,
    struck: Option<Moment>,
}

impl OneFault {
    fn new(strike: Option<(usize, Injected)>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Seen { armed: true, strike, ..Seen::default() })))
    }

    fn disarm(&self) -> (Vec<Moment>, Option<Moment>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.armed = false;
        (std::mem::take(&mut seen.moments), seen.struck)
    }
}

impl FaultPlan for OneFault {
    fn at(&self, moment: Moment) -> Option<Injected> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !seen.armed {
            return None;
        }
        let place = seen.moments.len();
        seen.moments.push(moment);
        let (_, fault) = seen.strike.filter(|(at, _)| *at == place)?;
        seen.struck = Some(moment);
        Some(fault)
    }
}

/// In which ways an operation can fail. Once it is committed, only the answer can still get lost.
fn ways(moment: Moment) -> &'static [Injected] {
    match moment {
        Moment::Begin | Moment::Statement => &[Injected::Unavailable, Injected::Conflict],
        Moment::BeforeCommit => &[Injected::Unavailable, Injected::Conflict, Injected::Unknown],
        Moment::AfterCommit => &[Injected::Unknown],
    }
}

/// Somebody who does not take no for an answer.
struct Caller {
    bench: Bench,
    errors: RefCell<Vec<StoreError>>,
    /// Hand-outs whose answer never came.
    unheard: RefCell<usize>,
}

impl Caller {
    /// Asks until there is an answer. A second fault is not planned, so the second ask must do.
    async fn insist<T>(&self, what: &str, ask: impl AsyncFn(&dyn Ledger) -> StoreResult<T>) -> T {
        for _ in 0..2 {
            match ask(&*self.bench.ledger).await {
                Ok(answer) => return answer,
                Err(error) => {
                    assert!(error.is_transient(), "{what}: {error}");
                    self.errors.borrow_mut().push(error);
                }
            }
        }
        panic!("{what}: {:?}", self.errors.borrow());
    }

    async fn submit(&self, job: NewJob) -> JobId {
        let answers = self.insist("submit", async |ledger| ledger.submit(vec![job.clone()]).await).await;
        match &answers[..] {
            [Submitted::Accepted { id, .. } | Submitted::Replayed { id, .. }] => *id,
            other => panic!("{other:?}"),
        }
    }

    /// The next run of this type, confirmed. A hand-out that was stored and never heard of returns in time.
    async fn start(&self, name: &str) -> ClaimedRun {
        let rules = ClaimRules { weights: Default::default(), strategy: Default::default() };
        let claim = async || {
            let worker = Claimant { abilities: abilities(&[name]), ..self.bench.worker("w1") };
            self.insist("claim", async |ledger| ledger.claim(vec![worker.clone()], rules).await).await
        };
        let mut runs = claim().await;
        if runs.is_empty() {
            *self.unheard.borrow_mut() += 1;
            self.bench.pass_ms(TIMES.accept_ms + 1);
            assert_eq!(self.reap().await.returned, 1);
            runs = claim().await;
        }
        assert_eq!(runs.len(), 1);
        let beat = self.bench.heartbeat(&[&runs[0]]);
        let answers = self.insist("heartbeat", async |ledger| ledger.heartbeat(beat.clone()).await).await;
        assert_eq!(answers, [(runs[0].run, BeatAnswer::Renewed)]);
        runs.remove(0)
    }

    async fn reap(&self) -> bowline_store::Reaped {
        let before = self.errors.borrow().len();
        let mut reaped = self.insist("reap", async |ledger| ledger.reap(TIMES, self.bench.listened()).await).await;
        if self.errors.borrow().len() > before && reaped.lost + reaped.returned == 0 {
            // The first look was stored, only its answer got lost.
            reaped.returned = 1;
        }
        reaped
    }

    async fn report(&self, report: RunReport, status: JobStatus) {
        let answers = self.insist("report", async |ledger| ledger.report(vec![report.clone()]).await).await;
        let right = matches!(&answers[..], [ReportAnswer::Recorded(now)] if *now == status)
            || (answers == [ReportAnswer::Duplicate] && !self.errors.borrow().is_empty());
        assert!(right, "{answers:?}");
    }
}

/// A story with everything in it: keys, a batch, a retry, a timer, told events, a cancel, a lost worker, a dead letter.
async fn live(caller: &Caller) -> Vec<JobId> {
    let bench = &caller.bench;
    let keys = vec![idempotency_key("a"), external_id("ext-a")];
    let first = NewJob { policy: attempts(2), keys, task_type: task_type("a"), hash: body("a"), ..bench.job() };
    let (a, b, c) = tokio::join!(
        biased;
        caller.submit(first),
        caller.submit(NewJob { task_type: task_type("b"), ..bench.keyed("b", "b") }),
        caller.submit(NewJob { task_type: task_type("c"), ..bench.keyed("c", "c") }),
    );

    let run = caller.start("a").await;
    assert_eq!(run.job, a);
    let told = bench.telling(&run, &[2, 1]);
    let answer = caller.insist("tell", async |ledger| ledger.tell(told.clone()).await).await;
    assert!(matches!(answer, TellAnswer::Held { acked: 2, owner: true, .. }), "{answer:?}");
    let failed = bench.report_of(&run, Outcome::Failed(ErrorClass::Transient));
    caller.report(failed, JobStatus::Pending).await;
    bench.pass_ms(1_000);
    caller.insist("promote", async |ledger| ledger.promote(10).await).await;
    let run = caller.start("a").await;
    assert_eq!((run.job, run.attempt), (a, 2));
    let done = RunReport { result: Some("42".into()), ..bench.report_of(&run, Outcome::Succeeded) };
    caller.report(done, JobStatus::Succeeded).await;

    let order = bench.order(b);
    let answer = caller.insist("cancel", async |ledger| ledger.cancel_job(order.clone()).await).await;
    assert!(matches!(answer, OrderAnswer::Done(JobStatus::Canceled) | OrderAnswer::Unchanged(JobStatus::Canceled)));
    let answer = caller.insist("retry", async |ledger| ledger.retry_job(order.clone()).await).await;
    assert!(matches!(answer, OrderAnswer::Done(JobStatus::Queued) | OrderAnswer::NotFrom(JobStatus::Queued)));
    let lost = caller.start("b").await;
    assert_eq!(lost.job, b);
    bench.pass_ms(TIMES.ttl_ms + 1);
    caller.reap().await;
    let run = caller.start("b").await;
    assert_eq!((run.job, run.attempt), (b, 2));
    caller.report(bench.report_of(&run, Outcome::Succeeded), JobStatus::Succeeded).await;

    let run = caller.start("c").await;
    assert_eq!(run.job, c);
    caller.report(bench.report_of(&run, Outcome::Failed(ErrorClass::Permanent)), JobStatus::Dead).await;
    let order = bench.about(DeadLetterChoice::Jobs(vec![c]));
    let closed = caller.insist("replay", async |ledger| ledger.replay_dead_letters(order.clone()).await).await;
    let (Closed::Replayed { new_job: d, .. } | Closed::Already { new_job: Some(d), .. }) = closed[0] else {
        panic!("{closed:?}")
    };
    let run = caller.start("c").await;
    assert_eq!(run.job, d);
    caller.report(bench.report_of(&run, Outcome::Succeeded), JobStatus::Succeeded).await;
    vec![a, b, c, d]
}

/// Everything that is the same whenever and however often it was asked for: no ids, no times, and no hand-outs that
/// never reached their worker.
async fn essence(bench: &Bench, jobs: &[JobId]) -> String {
    let mut text = String::new();
    for (name, job) in ["a", "b", "c", "replay of c"].iter().zip(jobs) {
        let (record, runs) = bench.find(*job).await;
        let counts = (record.state.attempts, record.state.failures, record.state.losses);
        writeln!(text, "{name}: {} {counts:?} {:?}", record.state.status, record.result).expect("texts grow");
        for run in runs.iter().filter(|run| run.status != RunStatus::Returned) {
            writeln!(text, "  {} {} told {} of {}", run.attempt, run.status, run.acked_seq, run.last_seq)
                .expect("texts grow");
        }
        let mut kinds = Vec::new();
        for (_, event) in bench.history(*job).await {
            match event.kind {
                EventKind::RunReturned => drop(kinds.pop()),
                kind => kinds.push(kind),
            }
        }
        writeln!(text, "  {kinds:?}").expect("texts grow");
    }
    for letter in bench.dead_letters().await {
        let place = jobs.iter().position(|job| *job == letter.job);
        let new = letter.replayed_as.and_then(|new| jobs.iter().position(|job| *job == new));
        writeln!(text, "dead: {place:?} {:?} as {new:?}", letter.status).expect("texts grow");
    }
    let all = bench.ledger.list_jobs(bench.tenant, Default::default(), None, 100).await.expect("it can be read");
    writeln!(text, "{} jobs", all.items.len()).expect("texts grow");
    // U3: what was done has its record, once, however often it was asked for; asking again may leave a trace of its own.
    let chain = Chain::Tenant(bench.tenant);
    let trail = bench.ledger.list_audit(chain, AuditFilter::default(), AuditFrom::After(0), 100).await;
    for record in trail.expect("it can be read").items.iter().filter(|record| record.result == "done") {
        let job = record.resource.strip_prefix("job/").and_then(|id| id.parse().ok());
        let place = jobs.iter().position(|known| Some(*known) == job);
        writeln!(text, "audit: {} {place:?}", record.action).expect("texts grow");
    }
    for (key, job) in [("a", jobs[0]), ("b", jobs[1]), ("c", jobs[2])] {
        let again = bench.ask(bench.keyed(key, key)).await;
        assert!(matches!(again, Submitted::Replayed { id, .. } if id == job), "{key}: {again:?}");
    }
    text
}

struct Ending {
    moments: Vec<Moment>,
    struck: Option<Moment>,
    errors: Vec<StoreError>,
    unheard: usize,
    returned: usize,
    essence: String,
}

/// One life, with at most one fault.
fn run(strike: Option<(usize, Injected)>) -> Ending {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime of one thread");
    LocalSet::new().block_on(&runtime, async {
        let clock = ManualClock::at(Bench::START);
        let settings =
            SqlSettings { key_ttl_ms: 3_600_000, backlog_max: Bench::BACKLOG_MAX, ..SqlSettings::new(clock.clone()) };
        let faults = OneFault::new(strike);
        let (ledger, driver) =
            SqlLedger::open_memory(&settings, Some(faults.clone())).expect("a ledger in memory opens");
        let _driver = tokio::task::spawn_local(driver);
        let caller = Caller {
            bench: Bench::new(Arc::new(ledger), clock),
            errors: RefCell::default(),
            unheard: RefCell::default(),
        };
        let jobs = live(&caller).await;
        let (moments, struck) = faults.disarm();
        caller.bench.verifies().await;
        let mut returned = 0;
        for job in &jobs {
            let kinds = caller.bench.kinds(*job).await;
            returned += kinds.into_iter().filter(|kind| *kind == EventKind::RunReturned).count();
        }
        let essence = essence(&caller.bench, &jobs).await;
        caller.bench.verifies().await;
        Ending { moments, struck, errors: caller.errors.take(), unheard: caller.unheard.take(), returned, essence }
    })
}

/// A planted mistake is made by the whole process, so the test that plants one must be alone.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn whoever_asks_again_ends_where_no_fault_would_have_led() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let calm = run(None);
    assert_eq!((calm.struck, calm.errors.len(), calm.unheard, calm.returned), (None, 0, 0, 0));
    let commits = calm.moments.iter().filter(|moment| **moment == Moment::AfterCommit).count();
    assert!(commits > 20 && calm.moments.len() > 100, "the story is long: {commits} commits");
    let (mut strikes, mut unheard) = (0, 0);
    for (place, moment) in calm.moments.iter().enumerate() {
        for fault in ways(*moment) {
            let ending = run(Some((place, *fault)));
            let what = format!("operation {place} ({moment:?}) failed with {fault:?}");
            assert_eq!(ending.struck, Some(*moment), "{what}: the fault must really have been there");
            // A conflict is the committer's own business; of everything else the caller hears.
            let heard = match fault {
                Injected::Conflict => ending.errors.is_empty(),
                Injected::Unavailable => all(&ending.errors, |e| matches!(e, StoreError::Unavailable(_))),
                Injected::Unknown => all(&ending.errors, |e| matches!(e, StoreError::Unknown(_))),
            };
            assert!(heard, "{what}: the caller heard {:?}", ending.errors);
            assert_eq!(ending.returned, ending.unheard, "{what}");
            assert_eq!(ending.essence, calm.essence, "{what}");
            strikes += 1;
            unheard += ending.unheard;
        }
    }
    assert_eq!(unheard, 6, "every claim of the story was once stored without being heard of");
    println!("{strikes} faults in {} operations, {commits} commits", calm.moments.len());
}

fn all(errors: &[StoreError], right: impl Fn(&StoreError) -> bool) -> bool {
    !errors.is_empty() && errors.iter().all(right)
}

/// The negative control: a ledger that answers before it has committed is found out by the first commit that fails.
#[cfg(feature = "planted")]
#[test]
fn an_answer_before_the_commit_is_found_out() {
    use bowline_model::planted::{self, Mistake};
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let calm = run(None);
    let place = calm.moments.iter().position(|moment| *moment == Moment::BeforeCommit).expect("there are commits");
    planted::plant(Some(Mistake::AnswerBeforeCommit));
    let ending = std::panic::catch_unwind(|| run(Some((place, Injected::Unavailable))).essence);
    planted::plant(None);
    assert_ne!(ending.ok(), Some(calm.essence), "the mistake went unnoticed");
}

/// The negative control of the audit trail: a record that is written after the deed is missing when just that fails.
#[cfg(feature = "planted")]
#[test]
fn an_audit_record_outside_the_transaction_is_found_out() {
    use bowline_model::planted::{self, Mistake};
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let calm = run(None);
    assert!(calm.essence.contains("audit: job.cancel"), "{}", calm.essence);
    planted::plant(Some(Mistake::AuditOutside));
    let places = run(None).moments;
    let found = places.iter().enumerate().filter(|(_, moment)| **moment == Moment::Statement).any(|(place, _)| {
        let ending = std::panic::catch_unwind(|| run(Some((place, Injected::Unavailable))).essence);
        ending.ok() != Some(calm.essence.clone())
    });
    planted::plant(None);
    assert!(found, "the mistake went unnoticed");
}
