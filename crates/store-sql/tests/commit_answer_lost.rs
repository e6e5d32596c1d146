//! The answer to COMMIT gets lost on a real network. Nobody is told that it failed, everybody is told that it is unknown,
//! and asking again by the same key finds out: nothing is lost, nothing is done twice.

use std::sync::Arc;
use std::time::Duration;

use bowline_model::dead_letter::DeadLetterStatus;
use bowline_model::{ErrorClass, JobStatus, Outcome, RunStatus};
use bowline_store::conformance::{Bench, TIMES, attempts, external_id, idempotency_key};
use bowline_store::{
    BeatAnswer, ClaimRules, Closed, DeadLetterChoice, ManualClock, NewJob, OrderAnswer, PruneMark, ReportAnswer,
    Retention, StoreError, StoreResult, Submitted, TellAnswer,
};
use bowline_store_sql::{PgSettings, SqlLedger, SqlSettings};
use bowline_testkit::{ChaosProxy, TestDatabase, fresh_database};

/// A ledger behind a network that can lose things.
struct House {
    bench: Bench,
    proxy: ChaosProxy,
    _database: TestDatabase,
}

async fn house() -> House {
    let database = fresh_database();
    let proxy = ChaosProxy::start(database.url());
    let clock = ManualClock::at(Bench::START);
    let pg = PgSettings {
        url: proxy.url().to_owned(),
        connect_timeout: Duration::from_secs(20),
        statement_timeout: Duration::from_secs(20),
        clock: Some(clock.clone()),
    };
    let settings =
        SqlSettings { key_ttl_ms: 3_600_000, backlog_max: Bench::BACKLOG_MAX, ..SqlSettings::new(clock.clone()) };
    let ledger = SqlLedger::open_postgres(pg, &settings).await.expect("a new ledger opens");
    House { bench: Bench::new(Arc::new(ledger), clock), proxy, _database: database }
}

/// The two ways in which nobody hears of a commit.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Loss {
    /// It is stored; the answer is gone.
    Answer,
    /// It never reached the server.
    Commit,
}

impl House {
    /// Makes a wish whose commit gets lost. The caller must hear that its fate is unknown, and the loss must be real.
    async fn lose<T: std::fmt::Debug>(&self, loss: Loss, wish: impl Future<Output = StoreResult<T>>) {
        let before = (self.proxy.commit_answers_dropped(), self.proxy.commits_failed());
        match loss {
            Loss::Answer => self.proxy.drop_next_commit_answers(1),
            Loss::Commit => self.proxy.fail_next_commits(1),
        }
        let answer = wish.await;
        assert!(matches!(answer, Err(StoreError::Unknown(_))), "{loss:?}: {answer:?}");
        let after = (self.proxy.commit_answers_dropped(), self.proxy.commits_failed());
        let wanted = if loss == Loss::Answer { (before.0 + 1, before.1) } else { (before.0, before.1 + 1) };
        assert_eq!(after, wanted, "the fault left its evidence");
    }

    async fn ends_well(self) {
        self.bench.verifies().await;
    }
}

fn rules() -> ClaimRules {
    ClaimRules { weights: Default::default(), strategy: Default::default() }
}

#[tokio::test]
async fn a_submission_is_asked_for_by_its_id() {
    let house = house().await;
    let bench = &house.bench;
    for loss in [Loss::Answer, Loss::Commit] {
        let job = bench.job();
        house.lose(loss, bench.ledger.submit(vec![job.clone()])).await;
        let there = bench.ledger.find_job(bench.tenant, job.id).await.expect("reading goes on").is_some();
        assert_eq!(there, loss == Loss::Answer);
        let again = bench.ask(job.clone()).await;
        match loss {
            Loss::Answer => assert!(matches!(again, Submitted::Replayed { id, .. } if id == job.id), "{again:?}"),
            Loss::Commit => assert!(matches!(again, Submitted::Accepted { id, .. } if id == job.id), "{again:?}"),
        }
        // Its line is known to have work, although nobody could be told so after the commit.
        assert_eq!(bench.claim_one().await.job, job.id);
        bench.nothing_to_claim().await;
    }
    house.ends_well().await;
}

#[tokio::test]
async fn a_submission_is_asked_for_by_its_keys() {
    let house = house().await;
    let bench = &house.bench;
    for (n, loss) in [Loss::Answer, Loss::Commit].into_iter().enumerate() {
        let keys = vec![idempotency_key(&format!("k{n}")), external_id(&format!("e{n}"))];
        let first = NewJob { keys, ..bench.job() };
        house.lose(loss, bench.ledger.submit(vec![first.clone()])).await;
        // A client that does not know its id: the API makes a new one for every request.
        let second = NewJob { id: bench.job_id(), ..first.clone() };
        let again = bench.ask(second.clone()).await;
        match loss {
            Loss::Answer => assert!(matches!(again, Submitted::Replayed { id, .. } if id == first.id), "{again:?}"),
            Loss::Commit => assert!(matches!(again, Submitted::Accepted { id, .. } if id == second.id), "{again:?}"),
        }
        bench.claim_one().await;
        bench.nothing_to_claim().await;
    }
    house.ends_well().await;
}

/// Everybody in the batch hears the same, and each finds his own again.
#[tokio::test]
async fn a_whole_batch_is_asked_for_again() {
    let house = house().await;
    let bench = &house.bench;
    for loss in [Loss::Answer, Loss::Commit] {
        let jobs: Vec<NewJob> = (0..50).map(|_| bench.job()).collect();
        house.lose(loss, bench.ledger.submit(jobs.clone())).await;
        let again = bench.ask_all(jobs.clone()).await;
        for (job, answer) in jobs.iter().zip(again) {
            let (Submitted::Accepted { id, .. } | Submitted::Replayed { id, .. }) = answer else {
                panic!("{answer:?}")
            };
            assert_eq!((id, matches!(answer, Submitted::Replayed { .. })), (job.id, loss == Loss::Answer));
        }
        assert_eq!(bench.claim(bench.insider(200)).await.len(), 50);
    }
    house.ends_well().await;
}

#[tokio::test]
async fn a_hand_out_that_nobody_heard_of_returns() {
    let house = house().await;
    let bench = &house.bench;
    for loss in [Loss::Answer, Loss::Commit] {
        let id = bench.submit(bench.job()).await;
        house.lose(loss, bench.ledger.claim(vec![bench.worker("w1")], rules())).await;
        let runs = bench.find(id).await.1.len();
        assert_eq!(runs, usize::from(loss == Loss::Answer));
        if loss == Loss::Answer {
            bench.nothing_to_claim().await;
            bench.pass_ms(TIMES.accept_ms + 1);
            assert_eq!(bench.reap().await.returned, 1);
        }
        let run = bench.start_one().await;
        assert_eq!((run.job, run.attempt), (id, 1), "the hand-out that was not heard of does not count");
        bench.succeed(&run).await;
    }
    house.ends_well().await;
}

/// The same for a claim that stood by when the job came.
#[tokio::test]
async fn a_hand_out_with_the_acceptance_that_nobody_heard_of_returns() {
    let house = house().await;
    let bench = &house.bench;
    for loss in [Loss::Answer, Loss::Commit] {
        let job = bench.job();
        let id = job.id;
        let standing = bench.ledger.claim_when_queued(vec![bench.worker("w1")], rules());
        let submitted = async {
            house.lose(loss, bench.ledger.submit(vec![job])).await;
            bench.ledger.withdraw_claim();
        };
        let (claimed, ()) = tokio::join!(biased; standing, submitted);
        assert!(matches!(claimed, Err(StoreError::Unknown(_))), "{claimed:?}");
        if loss == Loss::Answer {
            assert_eq!(bench.find(id).await.1.len(), 1);
            bench.nothing_to_claim().await;
            bench.pass_ms(TIMES.accept_ms + 1);
            assert_eq!(bench.reap().await.returned, 1);
            let run = bench.start_one().await;
            assert_eq!((run.job, run.attempt), (id, 1));
            bench.succeed(&run).await;
        }
        bench.nothing_to_claim().await;
    }
    house.ends_well().await;
}

#[tokio::test]
async fn a_report_is_repeated() {
    let house = house().await;
    let bench = &house.bench;
    for loss in [Loss::Answer, Loss::Commit] {
        let run = bench.running(NewJob { policy: attempts(2), ..bench.job() }).await;
        for outcome in [Outcome::Failed(ErrorClass::Transient), Outcome::Succeeded] {
            let run = if outcome == Outcome::Succeeded { bench.start_one().await } else { run.clone() };
            let status = if outcome == Outcome::Succeeded { JobStatus::Succeeded } else { JobStatus::Pending };
            let report = bench.report_of(&run, outcome);
            house.lose(loss, bench.ledger.report(vec![report.clone()])).await;
            let wanted = match loss {
                Loss::Answer => ReportAnswer::Duplicate,
                Loss::Commit => ReportAnswer::Recorded(status),
            };
            assert_eq!(bench.report(report).await, wanted);
            assert_eq!(bench.status(run.job).await, status);
            bench.pass_ms(1_000);
            bench.promote().await;
        }
        let state = bench.find(run.job).await.0.state;
        assert_eq!((state.attempts, state.failures), (2, 1), "every outcome counted once");
    }
    house.ends_well().await;
}

#[tokio::test]
async fn signs_of_life_are_repeated() {
    let house = house().await;
    let bench = &house.bench;
    for loss in [Loss::Answer, Loss::Commit] {
        bench.submit(bench.job()).await;
        let run = bench.claim_one().await;
        house.lose(loss, bench.ledger.heartbeat(bench.heartbeat(&[&run]))).await;
        assert_eq!(bench.beat(&run).await, BeatAnswer::Renewed);
        house.lose(loss, bench.ledger.tell(bench.telling(&run, &[1, 2]))).await;
        let added = if loss == Loss::Answer { 0 } else { 2 };
        let held = TellAnswer::Held { acked: 2, added, owner: true };
        assert_eq!(bench.tell(bench.telling(&run, &[1, 2])).await, held);
        bench.succeed(&run).await;
    }
    house.ends_well().await;
}

#[tokio::test]
async fn orders_are_repeated() {
    let house = house().await;
    let bench = &house.bench;
    for loss in [Loss::Answer, Loss::Commit] {
        let run = bench.running(bench.job()).await;
        house.lose(loss, bench.ledger.cancel_job(bench.order(run.job))).await;
        let wanted = match loss {
            Loss::Answer => OrderAnswer::Unchanged(JobStatus::Canceling),
            Loss::Commit => OrderAnswer::Done(JobStatus::Canceling),
        };
        assert_eq!(bench.cancel(run.job).await, wanted);
        bench.report(bench.report_of(&run, Outcome::Canceled)).await;
        house.lose(loss, bench.ledger.retry_job(bench.order(run.job))).await;
        let wanted = match loss {
            Loss::Answer => OrderAnswer::NotFrom(JobStatus::Queued),
            Loss::Commit => OrderAnswer::Done(JobStatus::Queued),
        };
        assert_eq!(bench.retry(run.job).await, wanted);
        assert_eq!(bench.claim_one().await.job, run.job);
        bench.nothing_to_claim().await;
    }
    house.ends_well().await;
}

#[tokio::test]
async fn a_replay_makes_one_job() {
    let house = house().await;
    let bench = &house.bench;
    for loss in [Loss::Answer, Loss::Commit] {
        let dead = bench.dead(bench.job()).await;
        house.lose(loss, bench.ledger.replay_dead_letters(bench.about(DeadLetterChoice::Jobs(vec![dead])))).await;
        let closed = bench.replay(dead).await;
        let new = match (loss, closed) {
            (Loss::Answer, Closed::Already { status: DeadLetterStatus::Replayed, new_job: Some(new), .. }) => new,
            (Loss::Commit, Closed::Replayed { new_job, .. }) => new_job,
            (loss, closed) => panic!("{loss:?}: {closed:?}"),
        };
        assert_eq!(bench.claim_one().await.job, new);
        bench.nothing_to_claim().await;
    }
    house.ends_well().await;
}

/// What services do again and again by themselves needs no key: the next round finds what is left to do.
#[tokio::test]
async fn services_go_on_with_the_next_round() {
    let house = house().await;
    let bench = &house.bench;
    for loss in [Loss::Answer, Loss::Commit] {
        let stored = u64::from(loss == Loss::Answer);
        let job = bench.submit(NewJob { run_at: Some(bench.now().plus_millis(10)), ..bench.job() }).await;
        bench.pass_ms(10);
        house.lose(loss, bench.ledger.promote(10)).await;
        assert_eq!(bench.promote().await, 1 - stored);
        let run = bench.start_one().await;
        bench.pass_ms(TIMES.ttl_ms + 1);
        house.lose(loss, bench.ledger.reap(TIMES, bench.listened())).await;
        assert_eq!(bench.reap().await.lost, 1 - stored);
        assert_eq!(bench.find(job).await.1[0].status, RunStatus::Lost);
        assert_eq!(bench.succeed(&run).await, ReportAnswer::Corrected(JobStatus::Succeeded));
        bench.pass_ms(1_000);
        let retention = Retention { finished_jobs_ms: 500, events_ms: 500 };
        house.lose(loss, bench.ledger.prune(retention, PruneMark::default())).await;
        let pruned = bench.ledger.prune(retention, PruneMark::default()).await.expect("the ledger can be pruned");
        assert_eq!(pruned.jobs, 1 - stored);
    }
    house.ends_well().await;
}

/// A network that is cut altogether is `Unavailable` before the commit, and heals.
#[tokio::test]
async fn a_cut_network_is_unavailable_and_heals() {
    let house = house().await;
    let bench = &house.bench;
    let kept = bench.submit(bench.job()).await;
    house.proxy.cut();
    let job = bench.job();
    let answer = bench.ledger.submit(vec![job.clone()]).await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_) | StoreError::Unknown(_))), "{answer:?}");
    let answer = bench.ledger.submit(vec![job.clone()]).await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "with no connection nothing is sent: {answer:?}");
    let answer = bench.ledger.find_job(bench.tenant, kept).await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    house.proxy.heal();
    bench.until("the ledger to come back", async || bench.ledger.ping().await).await;
    assert_eq!(bench.status(kept).await, JobStatus::Queued);
    assert!(bench.ledger.find_job(bench.tenant, job.id).await.expect("reading goes on").is_none());
    bench.submit(job).await;
    house.ends_well().await;
}
