//! A ledger in a file: what was stored is there after a restart, nothing is given twice, and one process has it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bowline_model::{JobStatus, RunStatus};
use bowline_store::conformance::{Bench, idempotency_key};
use bowline_store::{
    Claimant, EventFilter, ManualClock, NewJob, Position, PruneMark, Retention, StoreError, Submitted,
};
use bowline_store_sql::{SqlLedger, SqlSettings};

fn open(directory: &Path, clock: &Arc<ManualClock>) -> Result<Arc<SqlLedger>, StoreError> {
    // Every life rolls its own dice; with the same dice at the same time it would make the same ids.
    static SEED: AtomicU64 = AtomicU64::new(1);
    let seed = SEED.fetch_add(1, Ordering::Relaxed);
    let settings =
        SqlSettings { key_ttl_ms: 3_600_000, backlog_max: Bench::BACKLOG_MAX, seed, ..SqlSettings::new(clock.clone()) };
    SqlLedger::open_sqlite(directory, &settings).map(Arc::new)
}

fn bench(directory: &Path, clock: &Arc<ManualClock>) -> Bench {
    Bench::new(open(directory, clock).expect("nobody else has the ledger"), clock.clone())
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let directory = tempfile::tempdir().expect("a place for the ledger");
    let clock = ManualClock::at(Bench::START);
    let first = bench(directory.path(), &clock);
    let run = first.running(first.job()).await;
    let queued = first.submit(NewJob { keys: vec![idempotency_key("k")], ..first.job() }).await;
    let later = first.submit(NewJob { run_at: Some(first.now().plus_millis(500)), ..first.job() }).await;
    let history = first.stream(EventFilter::default(), 5).await;
    first.close().await;
    drop(first);

    let second = bench(directory.path(), &clock);
    assert_eq!(second.stream(EventFilter::default(), 5).await, history, "events keep their places and ids");
    assert_eq!(second.status(run.job).await, JobStatus::Running);
    let again = second.ask(NewJob { id: run.job, keys: vec![idempotency_key("k")], ..second.job() }).await;
    assert!(matches!(again, Submitted::Replayed { id, .. } if id == queued), "{again:?}");
    assert_eq!(second.claim_one().await.job, queued, "what waits is found without being queued again");
    second.pass_ms(500);
    assert_eq!(second.promote().await, 1);
    assert_eq!(second.claim_one().await.job, later);
    second.succeed(&run).await;
    second.verifies().await;
}

/// Retention may remove the newest of everything; a restart must not count from a lower number.
#[tokio::test]
async fn numbers_and_positions_are_not_given_twice_after_retention_and_a_restart() {
    let directory = tempfile::tempdir().expect("a place for the ledger");
    let clock = ManualClock::at(Bench::START);
    let (mut number, mut position) = (0, Position::default());
    for _ in 0..3 {
        let life = bench(directory.path(), &clock);
        let run = life.running(life.job()).await;
        life.succeed(&run).await;
        let now = life.find(run.job).await.0.number;
        assert!(now > number, "{now} after {number}");
        let history = life.history(run.job).await;
        assert!(history.iter().all(|(at, _)| *at > position), "{history:?} after {position}");
        (number, position) = (now, history.last().expect("there are events").0);
        life.pass_ms(1_000);
        let pruned = life.ledger.prune(Retention { finished_jobs_ms: 500, events_ms: 500 }, PruneMark::default()).await;
        assert_eq!(pruned.expect("the ledger can be pruned").jobs, 1);
        life.close().await;
    }
}

#[tokio::test]
async fn one_process_has_the_ledger() {
    let directory = tempfile::tempdir().expect("a place for the ledger");
    let clock = ManualClock::at(Bench::START);
    let first = open(directory.path(), &clock).expect("nobody else has the ledger");
    let second = open(directory.path(), &clock);
    assert!(matches!(&second, Err(StoreError::Unavailable(why)) if why.contains("another process")), "{second:?}");
    drop(first);
    open(directory.path(), &clock).expect("it was let go of");
}

/// The runs of a process that is gone are over, and those of nobody else.
#[tokio::test]
async fn the_runs_of_a_former_process_are_reclaimed() {
    let directory = tempfile::tempdir().expect("a place for the ledger");
    let clock = ManualClock::at(Bench::START);
    let ledger = open(directory.path(), &clock).expect("nobody else has the ledger");
    let bench = Bench::new(ledger.clone(), clock);
    let mut runs = Vec::new();
    for name in ["inside_1/a", "inside_1/b", "inside_10", "inside-1/a", "Inside_1/a", "outside"] {
        bench.submit(bench.job()).await;
        let claimant = Claimant { accepts_at_once: true, ..bench.worker(name) };
        runs.push(bench.claim(claimant).await.remove(0));
    }
    assert_eq!(ledger.reclaim("inside_1/").await, Ok(2));
    for (n, run) in runs.iter().enumerate() {
        let wanted =
            if n < 2 { (JobStatus::Queued, RunStatus::Lost) } else { (JobStatus::Running, RunStatus::Running) };
        let (job, runs) = bench.find(run.job).await;
        assert_eq!((job.state.status, runs[0].status), wanted, "{}", run.worker);
    }
    assert_eq!(ledger.reclaim("inside_1/").await, Ok(0));
    bench.verifies().await;
}

/// Cursors outlive a restart, and those of one ledger mean nothing to another.
#[tokio::test]
async fn each_ledger_has_a_secret_of_its_own_for_cursors() {
    let (one, other) = (tempfile::tempdir().expect("a place"), tempfile::tempdir().expect("another place"));
    let clock = ManualClock::at(Bench::START);
    let secret = |directory: &Path| open(directory, &clock).expect("nobody else has the ledger").cursor_secret();
    let first = secret(one.path());
    assert_eq!(secret(one.path()), first);
    assert_ne!(secret(other.path()), first);
}

#[tokio::test]
async fn a_ledger_is_made_only_where_that_is_wanted() {
    let directory = tempfile::tempdir().expect("a place for the ledger");
    let clock = ManualClock::at(Bench::START);
    let open = |make| {
        let settings = SqlSettings { make, ..SqlSettings::new(clock.clone()) };
        SqlLedger::open_sqlite(directory.path(), &settings)
    };
    let missing = open(false);
    assert!(matches!(&missing, Err(StoreError::Unavailable(why)) if why.contains("there is no ledger")), "{missing:?}");
    assert!(!directory.path().join("bowline.db").exists(), "nothing was made");
    let made = open(true).expect("it is made");
    assert!(!made.migrated.applied.is_empty());
    drop(made);
    let there = open(false).expect("it is there");
    assert!(there.migrated.applied.is_empty(), "there was nothing to do");
}
