//! Promises about jobs that must have ended by a moment.

use std::sync::Arc;

use bowline_model::{ErrorClass, EventKind, JobPolicy, JobStatus, RunStatus};

use super::bench::{Bench, attempts, policy};
use crate::{BeatAnswer, NewJob, OrderAnswer, ReportAnswer};

const MINUTE_MS: i64 = 60_000;
const FAR_MS: i64 = 400 * 86_400_000;

fn within_a_minute() -> Option<Arc<JobPolicy>> {
    policy(JobPolicy { deadline_ms: Some(60_000), ..JobPolicy::default() })
}

fn limited(bench: &Bench) -> NewJob {
    NewJob { policy: within_a_minute(), ..bench.job() }
}

/// Fails every job whose deadline has passed by now; how many those were.
async fn expire(bench: &Bench) -> u64 {
    bench.ledger.promote(1_000).await.expect("the ledger looks at its timers").expired
}

pub async fn a_job_that_nobody_takes_fails_at_its_deadline(bench: &Bench) {
    let job = bench.submit(limited(bench)).await;
    let unlimited = bench.submit(NewJob { task_type: super::bench::task_type("other"), ..bench.job() }).await;
    assert_eq!(bench.find(job).await.0.deadline_at, Some(bench.now().plus_millis(MINUTE_MS)));
    assert_eq!(bench.find(unlimited).await.0.deadline_at, None);
    bench.pass_ms(MINUTE_MS - 1);
    assert_eq!(expire(bench).await, 0);
    let next = bench.ledger.promote(1_000).await.expect("the ledger looks at its timers").next_due_at;
    assert_eq!(next, Some(bench.now().plus_millis(1)), "it says when to look again");
    bench.pass_ms(1);
    assert_eq!(expire(bench).await, 1);
    let (record, runs) = bench.find(job).await;
    assert_eq!((record.state.status, runs.len()), (JobStatus::Failed, 0));
    assert_eq!(record.error.map(|error| error.class), Some(ErrorClass::Deadline));
    assert_eq!(bench.kinds(job).await, [EventKind::JobEnqueued, EventKind::JobDeadlinePassed]);
    assert_eq!(bench.status(unlimited).await, JobStatus::Queued);
    bench.nothing_to_claim().await;
    assert!(bench.dead_letters().await.is_empty(), "there is nothing to try again");
    assert_eq!(expire(bench).await, 0, "once");
}

pub async fn a_deadline_counts_from_the_moment_its_job_is_for(bench: &Bench) {
    let run_at = bench.now().plus_millis(60 * MINUTE_MS);
    let later = bench.submit(NewJob { run_at: Some(run_at), ..limited(bench) }).await;
    let past = Some(bench.now().plus_millis(-60 * MINUTE_MS));
    let at_once = bench.submit(NewJob { run_at: past, ..limited(bench) }).await;
    assert_eq!(bench.find(later).await.0.deadline_at, Some(run_at.plus_millis(MINUTE_MS)));
    bench.pass_ms(MINUTE_MS);
    assert_eq!(expire(bench).await, 1, "the other one is not due yet");
    assert_eq!(bench.status(at_once).await, JobStatus::Failed);
    assert_eq!(bench.status(later).await, JobStatus::Pending);
    bench.pass_ms(59 * MINUTE_MS);
    assert_eq!((expire(bench).await, bench.status(later).await), (0, JobStatus::Queued));
    bench.pass_ms(MINUTE_MS);
    assert_eq!((expire(bench).await, bench.status(later).await), (1, JobStatus::Failed));
}

pub async fn a_deadline_ends_the_wait_for_a_retry(bench: &Bench) {
    let often = attempts(9).map(|policy| Arc::new(JobPolicy { deadline_ms: Some(1_500), ..(*policy).clone() }));
    let run = bench.running(NewJob { policy: often, ..bench.job() }).await;
    bench.pass_ms(1_000);
    bench.fail(&run, ErrorClass::Transient).await;
    assert_eq!(bench.status(run.job).await, JobStatus::Pending);
    bench.pass_ms(500);
    assert_eq!((expire(bench).await, bench.status(run.job).await), (1, JobStatus::Failed));
    bench.pass_ms(MINUTE_MS);
    assert_eq!(bench.promote().await, 0, "its timer is gone");
    let (record, runs) = bench.find(run.job).await;
    assert_eq!(record.error.map(|error| error.class), Some(ErrorClass::Deadline));
    assert_eq!(
        runs.iter().map(|run| run.status).collect::<Vec<_>>(),
        [RunStatus::Failed],
        "its attempt stays as it was"
    );
}

pub async fn a_running_job_fails_at_its_deadline_and_its_run_has_no_authority(bench: &Bench) {
    let run = bench.running(limited(bench)).await;
    bench.pass_ms(MINUTE_MS);
    assert_eq!(bench.beat(&run).await, BeatAnswer::Renewed);
    assert_eq!(expire(bench).await, 1);
    let (record, runs) = bench.find(run.job).await;
    assert_eq!((record.state.status, runs[0].status), (JobStatus::Failed, RunStatus::TimedOut));
    assert_eq!(runs[0].error.as_ref().map(|error| error.class), Some(ErrorClass::Deadline));
    assert_eq!(bench.beat(&run).await, BeatAnswer::Stale, "its worker hears that it is over");
    assert_eq!(bench.succeed(&run).await, ReportAnswer::Finished(RunStatus::TimedOut));
    assert_eq!(bench.status(run.job).await, JobStatus::Failed);
    bench.nothing_to_claim().await;
}

pub async fn a_job_that_is_being_canceled_is_canceled_at_its_deadline(bench: &Bench) {
    let run = bench.running(limited(bench)).await;
    assert_eq!(bench.cancel(run.job).await, OrderAnswer::Done(JobStatus::Canceling));
    bench.pass_ms(MINUTE_MS);
    assert_eq!((expire(bench).await, bench.status(run.job).await), (1, JobStatus::Canceled));
}

pub async fn a_job_that_ended_in_time_has_no_deadline(bench: &Bench) {
    let done = bench.running(limited(bench)).await;
    bench.succeed(&done).await;
    let dead = bench.dead(limited(bench)).await;
    let canceled = bench.submit(limited(bench)).await;
    bench.cancel(canceled).await;
    for job in [done.job, dead, canceled] {
        assert_eq!(bench.find(job).await.0.deadline_at, None);
    }
    bench.pass_ms(MINUTE_MS);
    assert_eq!(expire(bench).await, 0);
}

pub async fn a_retried_job_has_its_whole_time_again(bench: &Bench) {
    let job = bench.submit(limited(bench)).await;
    bench.pass_ms(10 * MINUTE_MS);
    expire(bench).await;
    assert_eq!(bench.retry(job).await, OrderAnswer::Done(JobStatus::Queued));
    assert_eq!(bench.find(job).await.0.deadline_at, Some(bench.now().plus_millis(MINUTE_MS)));
    bench.pass_ms(MINUTE_MS - 1);
    assert_eq!(expire(bench).await, 0);
    let run = bench.start_one().await;
    bench.succeed(&run).await;
    assert_eq!(bench.status(job).await, JobStatus::Succeeded);
}

pub async fn no_deadline_passes_by_a_clock_that_is_held(bench: &Bench) {
    let job = bench.submit(limited(bench)).await;
    bench.ledger.note_time().await.expect("the time is noted");
    bench.pass_ms(FAR_MS);
    for _ in 0..2 {
        assert_eq!((expire(bench).await, bench.status(job).await), (0, JobStatus::Queued));
        bench.pass_ms(10 * MINUTE_MS);
    }
    bench.ledger.accept_clock("ops".into(), None).await.expect("the clock is accepted");
    assert_eq!((expire(bench).await, bench.status(job).await), (1, JobStatus::Failed));
}

pub async fn a_deadline_does_not_wait_for_a_future_that_was_wrong(bench: &Bench) {
    bench.ledger.note_time().await.expect("the time is noted");
    bench.pass_ms(FAR_MS);
    bench.ledger.now().await.expect("the ledger tells the time");
    bench.ledger.accept_clock("ops".into(), None).await.expect("accepted, wrongly");
    let job = bench.submit(limited(bench)).await;
    bench.ledger.note_time().await.expect("the time is noted");
    bench.pass_ms(-FAR_MS);
    bench.ledger.now().await.expect("the ledger tells the time");
    bench.ledger.accept_clock("ops".into(), None).await.expect("accepted, rightly");
    bench.pass_ms(MINUTE_MS + 1_000);
    assert_eq!((expire(bench).await, bench.status(job).await), (1, JobStatus::Failed));
}
