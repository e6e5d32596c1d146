//! Promises about orders: people stop jobs and try them again.

use bowline_model::dead_letter::DeadLetterStatus;
use bowline_model::{ErrorClass, EventKind, JobId, JobPolicy, JobStatus, Outcome, RunStatus};
use tokio::task::JoinSet;

use super::bench::{self, Bench, attempts, policy};
use crate::{BeatAnswer, JobOrder, NewJob, OrderAnswer, ReportAnswer};

pub async fn a_queued_job_is_canceled_at_once(bench: &Bench) {
    let id = bench.submit(bench.job()).await;
    bench.pass_ms(10);
    assert_eq!(bench.cancel(id).await, OrderAnswer::Done(JobStatus::Canceled));
    let job = bench.find(id).await.0;
    assert_eq!((job.state.status, job.finished_at), (JobStatus::Canceled, Some(bench.now())));
    bench.nothing_to_claim().await;
}

pub async fn a_scheduled_job_is_canceled_at_once(bench: &Bench) {
    let id = bench.submit(NewJob { run_at: Some(bench.now().plus_millis(1_000)), ..bench.job() }).await;
    assert_eq!(bench.cancel(id).await, OrderAnswer::Done(JobStatus::Canceled));
    bench.pass_ms(1_000);
    assert_eq!(bench.promote().await, 0, "its timer is gone");
    bench.nothing_to_claim().await;
}

pub async fn a_job_that_waits_for_its_retry_is_canceled_at_once(bench: &Bench) {
    let run = bench.running(NewJob { policy: attempts(3), ..bench.job() }).await;
    bench.fail(&run, ErrorClass::Transient).await;
    assert_eq!(bench.cancel(run.job).await, OrderAnswer::Done(JobStatus::Canceled));
    bench.pass_ms(5_000);
    assert_eq!(bench.promote().await, 0);
}

/// J4: the executor is asked to stop, and its word ends the job.
pub async fn a_running_job_is_asked_to_stop_and_confirms(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    assert_eq!(bench.cancel(run.job).await, OrderAnswer::Done(JobStatus::Canceling));
    assert_eq!(bench.find(run.job).await.0.finished_at, None, "it has not ended yet");
    assert_eq!(bench.beat(&run).await, BeatAnswer::Cancel);
    assert_eq!(bench.beat(&run).await, BeatAnswer::Cancel, "as often as it asks");
    let answer = bench.report(bench.report_of(&run, Outcome::Canceled)).await;
    assert_eq!(answer, ReportAnswer::Recorded(JobStatus::Canceled));
    assert_eq!(bench.find(run.job).await.1[0].status, RunStatus::Canceled);
    bench.nothing_to_claim().await;
}

/// A hand-out that nobody confirmed yet is told to stop with its first sign of life.
pub async fn a_job_that_was_just_handed_out_is_asked_to_stop(bench: &Bench) {
    let id = bench.submit(bench.job()).await;
    let run = bench.claim_one().await;
    assert_eq!(bench.cancel(id).await, OrderAnswer::Done(JobStatus::Canceling));
    assert_eq!(bench.beat(&run).await, BeatAnswer::Cancel);
}

pub async fn a_job_that_succeeds_before_it_can_stop_has_succeeded(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    bench.cancel(run.job).await;
    assert_eq!(bench.succeed(&run).await, ReportAnswer::Recorded(JobStatus::Succeeded));
}

/// Many handlers answer a cancel by failing. No attempt follows.
pub async fn a_job_that_fails_while_it_stops_is_canceled(bench: &Bench) {
    let run = bench.running(NewJob { policy: attempts(9), ..bench.job() }).await;
    bench.cancel(run.job).await;
    assert_eq!(bench.fail(&run, ErrorClass::Transient).await, ReportAnswer::Recorded(JobStatus::Canceled));
    let (_, runs) = bench.find(run.job).await;
    assert_eq!(runs[0].status, RunStatus::Failed, "the attempt says what it was");
    bench.nothing_to_claim().await;
}

pub async fn a_canceling_job_whose_worker_vanishes_ends_canceled(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    bench.cancel(run.job).await;
    assert_eq!(bench.silence().await.lost, 1);
    assert_eq!(bench.status(run.job).await, JobStatus::Canceled);
    assert_eq!(bench.find(run.job).await.1[0].status, RunStatus::Lost);
    bench.nothing_to_claim().await;
}

pub async fn a_worker_that_was_cut_off_hears_of_the_cancel_when_it_is_back(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    bench.cancel(run.job).await;
    bench.silence().await;
    assert_eq!(bench.status(run.job).await, JobStatus::Canceled);
    assert_eq!(bench.beat(&run).await, BeatAnswer::Cancel, "it still has to stop");
    bench.report(bench.report_of(&run, Outcome::Canceled)).await;
    assert_eq!(bench.beat(&run).await, BeatAnswer::Stale);
    assert_eq!(bench.find(run.job).await.1[0].status, RunStatus::Canceled);
}

pub async fn a_canceling_job_that_was_never_confirmed_ends_canceled(bench: &Bench) {
    let id = bench.submit(bench.job()).await;
    bench.claim_one().await;
    bench.cancel(id).await;
    assert_eq!(bench.silence().await.returned, 1);
    assert_eq!(bench.status(id).await, JobStatus::Canceled);
    bench.nothing_to_claim().await;
}

pub async fn a_canceling_job_that_does_not_stop_ends_canceled(bench: &Bench) {
    let limit = policy(JobPolicy { timeout_ms: 1_000, ..JobPolicy::default() });
    let run = bench.running(NewJob { policy: limit, ..bench.job() }).await;
    bench.cancel(run.job).await;
    bench.pass_ms(1_000 + bench::TIMES.deadline_grace_ms + 1);
    bench.beat(&run).await;
    assert_eq!(bench.reap().await.overdue, 1);
    assert_eq!(bench.status(run.job).await, JobStatus::Canceled);
}

pub async fn a_finished_job_cannot_be_canceled(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    bench.succeed(&run).await;
    assert_eq!(bench.cancel(run.job).await, OrderAnswer::Finished(JobStatus::Succeeded));
    let dead = bench.dead(bench.job()).await;
    assert_eq!(bench.cancel(dead).await, OrderAnswer::Finished(JobStatus::Dead));
    assert_eq!(bench.dead_letters().await[0].status, DeadLetterStatus::Open);
}

pub async fn canceling_twice_is_canceling_once(bench: &Bench) {
    let waiting = bench.submit(bench.job()).await;
    bench.cancel(waiting).await;
    assert_eq!(bench.cancel(waiting).await, OrderAnswer::Unchanged(JobStatus::Canceled));
    let run = bench.running(bench.job()).await;
    bench.cancel(run.job).await;
    assert_eq!(bench.cancel(run.job).await, OrderAnswer::Unchanged(JobStatus::Canceling));
    let told = |kinds: Vec<EventKind>, kind| kinds.into_iter().filter(|k| *k == kind).count();
    assert_eq!(told(bench.kinds(waiting).await, EventKind::JobCanceled), 1);
    assert_eq!(told(bench.kinds(run.job).await, EventKind::JobCancelRequested), 1);
}

pub async fn an_order_is_told_with_who_and_why(bench: &Bench) {
    let id = bench.submit(bench.job()).await;
    bench.cancel(id).await;
    let order = JobOrder { by: "bob".into(), reason: None, ..bench.order(id) };
    bench.ledger.retry_job(order).await.expect("the ledger takes orders");
    let told: Vec<_> = bench.history(id).await.into_iter().map(|(_, event)| (event.kind, event.data)).collect();
    let (kind, data) = &told[1];
    assert_eq!(
        (*kind, data.by.as_deref(), data.reason.as_deref()),
        (EventKind::JobCanceled, Some("ann"), Some("because"))
    );
    let (kind, data) = &told[2];
    assert_eq!((*kind, data.by.as_deref(), data.reason.as_deref()), (EventKind::JobRetried, Some("bob"), None));
}

pub async fn a_dead_job_is_tried_again_with_a_fresh_budget(bench: &Bench) {
    let id = bench.dead(NewJob { policy: attempts(2), ..bench.job() }).await;
    assert_eq!(bench.retry(id).await, OrderAnswer::Done(JobStatus::Queued));
    let job = bench.find(id).await.0;
    assert_eq!((job.state.failures, job.state.losses, job.finished_at), (0, 0, None));
    let letter = bench.dead_letters().await.remove(0);
    assert_eq!((letter.status, letter.closed_by.as_deref()), (DeadLetterStatus::Retried, Some("ann")));
    assert_eq!((letter.reason.as_deref(), letter.closed_at), (Some("because"), Some(bench.now())));
    let run = bench.start_one().await;
    assert_eq!((run.job, run.attempt, run.fence), (id, 2, 2));
    assert_eq!(bench.fail(&run, ErrorClass::Transient).await, ReportAnswer::Recorded(JobStatus::Pending));
}

/// Its letter was replayed as another job, or purged: trying it again as well could do the work twice.
pub async fn a_dead_job_whose_letter_is_closed_is_not_tried_again(bench: &Bench) {
    let purged = bench.dead(bench.job()).await;
    bench.purge(purged).await;
    let replayed = bench.dead(bench.job()).await;
    bench.replay(replayed).await;
    for dead in [purged, replayed] {
        assert_eq!(bench.retry(dead).await, OrderAnswer::LetterClosed);
        assert_eq!(bench.status(dead).await, JobStatus::Dead);
    }
}

pub async fn a_job_that_ended_badly_in_any_way_can_be_tried_again(bench: &Bench) {
    let failing = NewJob { policy: policy(JobPolicy { dead_letter: false, ..Default::default() }), ..bench.job() };
    let run = bench.running(failing).await;
    bench.fail(&run, ErrorClass::Permanent).await;
    assert_eq!(bench.retry(run.job).await, OrderAnswer::Done(JobStatus::Queued));
    bench.claim_one().await;

    let canceled = bench.submit(bench.job()).await;
    bench.cancel(canceled).await;
    assert_eq!(bench.retry(canceled).await, OrderAnswer::Done(JobStatus::Queued));
    assert_eq!(bench.claim_one().await.job, canceled);

    let lost = bench.running(NewJob { policy: bench::at_most_once(), ..bench.job() }).await;
    bench.silence().await;
    assert_eq!(bench.status(lost.job).await, JobStatus::Error);
    assert_eq!(bench.retry(lost.job).await, OrderAnswer::Done(JobStatus::Queued));
}

pub async fn a_job_that_is_not_over_cannot_be_retried(bench: &Bench) {
    let id = bench.submit(bench.job()).await;
    assert_eq!(bench.retry(id).await, OrderAnswer::NotFrom(JobStatus::Queued));
    let run = bench.start_one().await;
    assert_eq!(bench.retry(id).await, OrderAnswer::NotFrom(JobStatus::Running));
    bench.succeed(&run).await;
    assert_eq!(bench.retry(id).await, OrderAnswer::Finished(JobStatus::Succeeded));
}

pub async fn an_order_about_an_unknown_job_finds_nothing(bench: &Bench) {
    let nobody = JobId::mint(bench.now(), [9; 10]);
    assert_eq!(bench.cancel(nobody).await, OrderAnswer::NotFound);
    assert_eq!(bench.retry(nobody).await, OrderAnswer::NotFound);
}

/// Whoever is faster, the job ends in one piece.
pub async fn canceling_and_claiming_at_once_leaves_no_job_in_two_places(bench: &Bench) {
    let ids = bench.submit_many(30).await;
    let mut people = JoinSet::new();
    for id in ids.clone() {
        let (ledger, order) = (bench.ledger.clone(), bench.order(id));
        people.spawn(async move {
            let answer = ledger.cancel_job(order).await.expect("the ledger takes orders");
            assert!(matches!(answer, OrderAnswer::Done(JobStatus::Canceled | JobStatus::Canceling)), "{answer:?}");
        });
        let (ledger, claimant) = (bench.ledger.clone(), bench.worker("w1"));
        people.spawn(async move {
            let rules = crate::ClaimRules { weights: Default::default(), strategy: Default::default() };
            ledger.claim(vec![claimant], rules).await.expect("the ledger hands out runs");
        });
    }
    people.join_all().await;
    for id in ids {
        let (job, runs) = bench.find(id).await;
        let wanted = if runs.is_empty() { JobStatus::Canceled } else { JobStatus::Canceling };
        assert_eq!(job.state.status, wanted);
    }
    bench.nothing_to_claim().await;
}
