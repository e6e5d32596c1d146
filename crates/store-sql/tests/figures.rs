//! Figures: each attempt that ends is told to the observer once, with how its job stands then and how old the job is.

use std::sync::{Arc, Mutex, PoisonError};

use bowline_model::{ErrorClass, JobStatus, TaskType};
use bowline_store::conformance::{Bench, TIMES, TYPE, attempts};
use bowline_store::{ManualClock, NewJob, Observer};
use bowline_store_sql::{SqlLedger, SqlSettings};

#[derive(Debug, Default)]
struct Told(Mutex<Vec<(String, JobStatus, i64)>>);

impl Told {
    /// What was told since this was asked the last time.
    fn take(&self) -> Vec<(String, JobStatus, i64)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Told {
    fn attempt_ended(&self, task_type: &TaskType, job: JobStatus, age_ms: i64) {
        let one = (task_type.as_str().to_owned(), job, age_ms);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(one);
    }
}

fn bench() -> (Bench, Arc<Told>) {
    let (clock, told) = (ManualClock::at(Bench::START), Arc::new(Told::default()));
    let settings = SqlSettings { observer: Some(told.clone()), ..SqlSettings::new(clock.clone()) };
    let ledger = SqlLedger::open_memory_alone(&settings).expect("a ledger in memory opens");
    (Bench::new(Arc::new(ledger), clock), told)
}

fn one(status: JobStatus, age_ms: i64) -> [(String, JobStatus, i64); 1] {
    [(TYPE.to_owned(), status, age_ms)]
}

#[tokio::test]
async fn every_attempt_that_ends_is_told_once() {
    let (bench, told) = bench();
    let run = bench.running(NewJob { policy: attempts(3), ..bench.job() }).await;
    assert!(told.take().is_empty(), "it goes on");
    bench.pass_ms(300);
    bench.fail(&run, ErrorClass::Transient).await;
    assert_eq!(told.take(), one(JobStatus::Pending, 300));
    bench.fail(&run, ErrorClass::Transient).await;
    bench.pass_ms(1_000);
    assert_eq!(bench.promote().await, 1);
    bench.start_one().await;
    assert!(told.take().is_empty(), "nothing has ended since");
    assert_eq!(bench.silence().await.lost, 1);
    let age_ms = 1_300 + TIMES.ttl_ms + 1;
    assert_eq!(told.take(), one(JobStatus::Queued, age_ms));
    let run = bench.start_one().await;
    bench.succeed(&run).await;
    assert_eq!(told.take(), one(JobStatus::Succeeded, age_ms));
}

#[tokio::test]
async fn a_job_that_ends_without_an_attempt_is_not_told() {
    let (bench, told) = bench();
    let waiting = bench.submit(bench.job()).await;
    bench.cancel(waiting).await;
    let run = bench.running(bench.job()).await;
    bench.cancel(run.job).await;
    assert!(told.take().is_empty(), "the one has not begun, the other is at it");
    bench.submit(bench.job()).await;
    bench.claim_one().await;
    bench.pass_ms(TIMES.accept_ms + 1);
    assert_eq!(bench.reap().await.returned, 1);
    assert!(told.take().is_empty(), "a hand-out that nobody confirmed was no attempt");
}
