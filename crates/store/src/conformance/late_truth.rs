//! Promises about late truth: `lost` is an opinion, and what a worker says about its own attempt is evidence.

use bowline_model::dead_letter::DeadLetterStatus;
use bowline_model::{ErrorClass, EventKind, JobStatus, Outcome, RunStatus};

use super::bench::{self, Bench};
use crate::{NewJob, ReportAnswer, RunReport};

pub async fn a_late_success_corrects_a_job_that_nobody_has_begun_again(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    bench.silence().await;
    assert_eq!(bench.status(run.job).await, JobStatus::Queued);
    let report = RunReport { result: Some("42".into()), ..bench.report_of(&run, Outcome::Succeeded) };
    assert_eq!(bench.report(report.clone()).await, ReportAnswer::Corrected(JobStatus::Succeeded));
    let (job, runs) = bench.find(run.job).await;
    assert_eq!((job.state.status, job.result.as_deref()), (JobStatus::Succeeded, Some("42")));
    assert_eq!((job.finished_at, job.error), (Some(bench.now()), None));
    assert_eq!(runs[0].status, RunStatus::Succeeded);
    bench.nothing_to_claim().await;
    assert_eq!(bench.report(report).await, ReportAnswer::Duplicate);
}

pub async fn a_late_success_behind_a_newer_attempt_is_evidence_only(bench: &Bench) {
    let lost = bench.running(bench.job()).await;
    bench.silence().await;
    let owner = bench.start_one().await;
    assert_eq!(bench.succeed(&lost).await, ReportAnswer::Stale { evidence: true });
    let (job, runs) = bench.find(lost.job).await;
    assert_eq!((job.state.status, job.state.fence), (JobStatus::Running, owner.fence));
    let statuses: Vec<_> = runs.iter().map(|run| run.status).collect();
    assert_eq!(statuses, [RunStatus::Succeeded, RunStatus::Running], "the attempt took the truth, the job did not");
    assert_eq!(bench.succeed(&lost).await, ReportAnswer::Duplicate, "it is told once");
    assert_eq!(bench.fail(&owner, ErrorClass::Permanent).await, ReportAnswer::Recorded(JobStatus::Dead));
    assert_eq!(bench.status(lost.job).await, JobStatus::Dead, "J3: the highest attempt decides");
}

/// J3: the outcome of a finished job is not taken back by an older attempt.
pub async fn a_late_word_does_not_change_a_job_that_ended(bench: &Bench) {
    let lost = bench.running(bench.job()).await;
    bench.silence().await;
    let owner = bench.start_one().await;
    bench.succeed(&owner).await;
    let job = bench.find(lost.job).await.0;
    assert_eq!(bench.fail(&lost, ErrorClass::Transient).await, ReportAnswer::Stale { evidence: true });
    let (now, runs) = bench.find(lost.job).await;
    assert_eq!(now, job);
    assert_eq!(runs.iter().map(|run| run.status).collect::<Vec<_>>(), [RunStatus::Failed, RunStatus::Succeeded]);
    let told: Vec<_> = bench.kinds(lost.job).await;
    assert_eq!(told.last(), Some(&EventKind::RunCorrected), "double execution is told, not hidden");
}

pub async fn a_late_failure_is_evidence_and_the_next_attempt_stands(bench: &Bench) {
    let lost = bench.running(bench.job()).await;
    bench.silence().await;
    assert_eq!(bench.fail(&lost, ErrorClass::Permanent).await, ReportAnswer::Stale { evidence: true });
    let (job, runs) = bench.find(lost.job).await;
    assert_eq!((job.state.status, job.state.failures, job.state.losses), (JobStatus::Queued, 0, 1));
    assert_eq!(runs[0].status, RunStatus::Failed);
    assert_eq!(bench.claim_one().await.job, lost.job);
}

pub async fn a_late_success_takes_a_job_out_of_the_dead_letters(bench: &Bench) {
    let run = bench.running(NewJob { policy: bench::losses(0), ..bench.job() }).await;
    bench.silence().await;
    assert_eq!(bench.status(run.job).await, JobStatus::Dead);
    assert_eq!(bench.succeed(&run).await, ReportAnswer::Corrected(JobStatus::Succeeded));
    let letters = bench.dead_letters().await;
    assert_eq!(letters.iter().map(|letter| letter.status).collect::<Vec<_>>(), [DeadLetterStatus::Corrected]);
    let depths = bench.ledger.lane_depths(Some(bench.tenant)).await.expect("the ledger can be read");
    assert!(depths.iter().all(|depth| depth.dead == 0), "{depths:?}");
}

pub async fn a_late_success_corrects_a_job_that_ended_as_error(bench: &Bench) {
    let run = bench.running(NewJob { policy: bench::at_most_once(), ..bench.job() }).await;
    bench.silence().await;
    assert_eq!(bench.status(run.job).await, JobStatus::Error);
    assert_eq!(bench.succeed(&run).await, ReportAnswer::Corrected(JobStatus::Succeeded));
    assert_eq!(bench.status(run.job).await, JobStatus::Succeeded);
}

/// A returned run should not have run; when it did, that is the truth.
pub async fn a_returned_run_that_did_run_is_believed(bench: &Bench) {
    let id = bench.submit(bench.job()).await;
    let unseen = bench.claim_one().await;
    bench.silence().await;
    assert_eq!(bench.find(id).await.1[0].status, RunStatus::Returned);
    assert_eq!(bench.succeed(&unseen).await, ReportAnswer::Corrected(JobStatus::Succeeded));
    let (job, runs) = bench.find(id).await;
    assert_eq!((job.state.status, runs[0].status), (JobStatus::Succeeded, RunStatus::Succeeded));
    bench.nothing_to_claim().await;
}

pub async fn a_returned_run_that_did_run_is_evidence_beside_the_next_one(bench: &Bench) {
    bench.submit(bench.job()).await;
    let unseen = bench.claim_one().await;
    bench.silence().await;
    let owner = bench.start_one().await;
    assert_eq!(bench.succeed(&unseen).await, ReportAnswer::Stale { evidence: true });
    assert_eq!(bench.status(owner.job).await, JobStatus::Running);
    assert_eq!(bench.succeed(&owner).await, ReportAnswer::Recorded(JobStatus::Succeeded));
}

/// A run that was given up while it waited for its retry: the timer goes with the correction.
pub async fn a_lost_run_that_stopped_itself_ends_its_job(bench: &Bench) {
    let lost = bench.running(bench.job()).await;
    bench.silence().await;
    let answer = bench.report(bench.report_of(&lost, Outcome::Canceled)).await;
    assert_eq!(answer, ReportAnswer::Corrected(JobStatus::Canceled));
    bench.nothing_to_claim().await;
}

/// J4: cancel is a request; the outcome is what happened.
pub async fn a_canceled_job_whose_vanished_worker_had_succeeded_has_succeeded(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    bench.cancel(run.job).await;
    bench.silence().await;
    assert_eq!(bench.status(run.job).await, JobStatus::Canceled);
    assert_eq!(bench.succeed(&run).await, ReportAnswer::Corrected(JobStatus::Succeeded));
}

/// A person may have ordered another try already; while nobody has begun it, the truth still counts.
pub async fn a_late_success_counts_until_the_retry_has_begun(bench: &Bench) {
    let run = bench.running(NewJob { policy: bench::losses(0), ..bench.job() }).await;
    bench.silence().await;
    bench.retry(run.job).await;
    assert_eq!(bench.succeed(&run).await, ReportAnswer::Corrected(JobStatus::Succeeded));
    bench.nothing_to_claim().await;
}

/// A run that timed out was told to stop and had its grace; that end is a fact.
pub async fn a_run_that_timed_out_is_not_corrected(bench: &Bench) {
    let limit = bench::policy(bowline_model::JobPolicy { timeout_ms: 1_000, ..Default::default() });
    let run = bench.running(NewJob { policy: limit, ..bench.job() }).await;
    bench.pass_ms(1_000 + bench::TIMES.deadline_grace_ms + 1);
    bench.beat(&run).await;
    assert_eq!(bench.reap().await.overdue, 1);
    assert_eq!(bench.succeed(&run).await, ReportAnswer::Finished(RunStatus::TimedOut));
}
