//! Promises about reports: what a worker says about its run is recorded once, and only from the worker that has it.

use std::sync::Arc;

use bowline_model::{ErrorClass, Jitter, JobPolicy, JobStatus, Outcome, RetryPolicy, RunError, RunId, RunStatus};

use super::bench::{self, Bench, attempts, policy, worker_name};
use crate::{
    Claimant, ClaimedRun, Encoding, NewJob, OutputRange, OutputStream, PruneMark, ReportAnswer, Retention, RunReport,
    StoredResult,
};

pub async fn a_success_ends_the_job(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    bench.pass_ms(700);
    let result = "{ \"sent\" : 1.0, \"n\": 12345678901234567890 }";
    let report = RunReport { result: Some(result.into()), ..bench.report_of(&run, Outcome::Succeeded) };
    assert_eq!(bench.report(report).await, ReportAnswer::Recorded(JobStatus::Succeeded));
    let (job, runs) = bench.find(run.job).await;
    assert_eq!((job.state.status, job.state.attempts, job.state.failures), (JobStatus::Succeeded, 1, 0));
    assert_eq!(job.result.as_deref(), Some(result), "results are kept as they were written");
    assert_eq!((job.finished_at, job.updated_at, job.error), (Some(bench.now()), bench.now(), None));
    assert_eq!((runs[0].status, runs[0].finished_at), (RunStatus::Succeeded, Some(bench.now())));
    assert_eq!(bench.reap().await.active, 0, "its lease went with it");
    bench.nothing_to_claim().await;
}

/// A worker that answers before it was asked for a sign of life has confirmed by its answer.
pub async fn a_report_needs_no_heartbeat_before_it(bench: &Bench) {
    bench.submit(bench.job()).await;
    let run = bench.claim_one().await;
    assert_eq!(bench.succeed(&run).await, ReportAnswer::Recorded(JobStatus::Succeeded));
}

pub async fn a_failure_waits_its_backoff_and_is_tried_again(bench: &Bench) {
    let run = bench.running(NewJob { policy: attempts(3), ..bench.job() }).await;
    assert_eq!(bench.fail(&run, ErrorClass::Transient).await, ReportAnswer::Recorded(JobStatus::Pending));
    let (job, runs) = bench.find(run.job).await;
    let due = bench.now().plus_millis(1_000);
    assert_eq!((job.state.due_at, job.state.failures, job.finished_at), (Some(due), 1, None));
    assert_eq!(job.error, Some(RunError::new(ErrorClass::Transient, "it did not work")));
    assert_eq!((runs[0].status, &runs[0].error), (RunStatus::Failed, &job.error));
    bench.pass_ms(999);
    assert_eq!(bench.promote().await, 0);
    bench.nothing_to_claim().await;
    bench.pass_ms(1);
    assert_eq!(bench.promote().await, 1);
    let second = bench.start_one().await;
    assert_eq!((second.job, second.attempt, second.fence), (run.job, 2, 2));
    bench.fail(&second, ErrorClass::Transient).await;
    assert_eq!(bench.find(run.job).await.0.state.due_at, Some(bench.now().plus_millis(2_000)), "patience doubles");
    bench.pass_ms(2_000);
    bench.promote().await;
    let third = bench.start_one().await;
    assert_eq!(bench.succeed(&third).await, ReportAnswer::Recorded(JobStatus::Succeeded));
    let (job, runs) = bench.find(run.job).await;
    assert_eq!(job.error, None, "a job that succeeded has no error");
    assert_eq!(runs.iter().map(|r| r.attempt).collect::<Vec<_>>(), [1, 2, 3], "J2: attempts are dense");
}

/// J6: chance decides the delay, between nothing and the whole backoff.
pub async fn a_random_backoff_stays_within_its_bounds(bench: &Bench) {
    let retry =
        RetryPolicy { base_ms: 1_000, factor: 4.0, max_backoff_ms: 2_500, max_attempts: 9, ..RetryPolicy::default() };
    assert_eq!(retry.jitter, Jitter::Full);
    let id = bench.submit(NewJob { policy: policy(JobPolicy { retry, ..JobPolicy::default() }), ..bench.job() }).await;
    for bound in [1_000, 2_500, 2_500, 2_500] {
        let run = bench.start_one().await;
        bench.fail(&run, ErrorClass::Transient).await;
        let state = bench.find(id).await.0.state;
        if let Some(due) = state.due_at {
            let wait = due.millis_since(bench.now());
            assert!((0..=bound).contains(&wait), "{wait} ms is not within {bound} ms");
        } else {
            assert_eq!(state.status, JobStatus::Queued, "no delay at all");
        }
        bench.pass_ms(bound);
        bench.promote().await;
    }
}

pub async fn a_failure_without_backoff_is_queued_at_once(bench: &Bench) {
    let retry = RetryPolicy { base_ms: 0, ..RetryPolicy::default() };
    let job = NewJob { policy: policy(JobPolicy { retry, ..JobPolicy::default() }), ..bench.job() };
    let run = bench.running(job).await;
    assert_eq!(bench.fail(&run, ErrorClass::Handler).await, ReportAnswer::Recorded(JobStatus::Queued));
    assert_eq!(bench.claim_one().await.job, run.job);
}

/// D1.
pub async fn exhausted_attempts_end_in_the_dead_letters(bench: &Bench) {
    let id = bench.submit(NewJob { policy: attempts(2), ..bench.job() }).await;
    let first = bench.start_one().await;
    assert_eq!(bench.fail(&first, ErrorClass::Timeout).await, ReportAnswer::Recorded(JobStatus::Pending));
    bench.pass_ms(1_000);
    bench.promote().await;
    let second = bench.start_one().await;
    assert_eq!(bench.fail(&second, ErrorClass::Transient).await, ReportAnswer::Recorded(JobStatus::Dead));
    let (job, runs) = bench.find(id).await;
    assert_eq!((job.state.attempts, job.state.failures, job.finished_at), (2, 2, Some(bench.now())));
    assert_eq!(runs.iter().map(|run| run.status).collect::<Vec<_>>(), [RunStatus::TimedOut, RunStatus::Failed]);
    let letters = bench.dead_letters().await;
    assert_eq!((letters.len(), letters[0].job, letters[0].attempts), (1, id, 2));
    assert_eq!(letters[0].class, Some(ErrorClass::Transient));
    assert_eq!(letters[0].error.as_deref(), Some("it did not work"));
}

pub async fn a_permanent_failure_is_dead_at_once(bench: &Bench) {
    let run = bench.running(NewJob { policy: attempts(9), ..bench.job() }).await;
    assert_eq!(bench.fail(&run, ErrorClass::Permanent).await, ReportAnswer::Recorded(JobStatus::Dead));
    assert_eq!(bench.dead_letters().await.len(), 1);
}

pub async fn a_job_that_wants_no_dead_letter_just_fails(bench: &Bench) {
    let job = NewJob { policy: policy(JobPolicy { dead_letter: false, ..JobPolicy::default() }), ..bench.job() };
    let run = bench.running(job).await;
    assert_eq!(bench.fail(&run, ErrorClass::Permanent).await, ReportAnswer::Recorded(JobStatus::Failed));
    assert_eq!(bench.dead_letters().await, []);
}

pub async fn a_report_told_twice_counts_once(bench: &Bench) {
    let run = bench.running(NewJob { policy: attempts(3), ..bench.job() }).await;
    bench.fail(&run, ErrorClass::Transient).await;
    let before = bench.find(run.job).await;
    assert_eq!(bench.fail(&run, ErrorClass::Transient).await, ReportAnswer::Duplicate);
    let report = bench.report_of(&run, Outcome::Failed(ErrorClass::Transient));
    let both = bench.ledger.report(vec![report.clone(), report]).await.expect("the ledger hears reports");
    assert_eq!(both, [ReportAnswer::Duplicate, ReportAnswer::Duplicate]);
    assert_eq!(bench.find(run.job).await, before);
}

pub async fn a_report_twice_in_one_batch_counts_once(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let report = bench.report_of(&run, Outcome::Succeeded);
    let answers = bench.ledger.report(vec![report.clone(), report]).await.expect("the ledger hears reports");
    assert_eq!(answers, [ReportAnswer::Recorded(JobStatus::Succeeded), ReportAnswer::Duplicate]);
}

/// R1: an end that is a fact never changes.
pub async fn another_word_about_an_ended_run_changes_nothing(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    bench.succeed(&run).await;
    let before = bench.find(run.job).await;
    let answer = bench.fail(&run, ErrorClass::Transient).await;
    assert_eq!(answer, ReportAnswer::Finished(RunStatus::Succeeded));
    let answer = bench.report(bench.report_of(&run, Outcome::Canceled)).await;
    assert_eq!(answer, ReportAnswer::Finished(RunStatus::Succeeded));
    assert_eq!(bench.find(run.job).await, before);
}

pub async fn a_report_by_another_worker_is_refused(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let report = RunReport { worker: worker_name("w2"), ..bench.report_of(&run, Outcome::Succeeded) };
    assert_eq!(bench.report(report).await, ReportAnswer::NotYours);
    assert_eq!(bench.status(run.job).await, JobStatus::Running);
}

pub async fn a_report_from_another_tenant_finds_nothing(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let report = RunReport { tenant: Some(bench.neighbour), ..bench.report_of(&run, Outcome::Succeeded) };
    assert_eq!(bench.report(report).await, ReportAnswer::NotFound);
    assert_eq!(bench.status(run.job).await, JobStatus::Running);
}

/// A worker that mixes up its jobs is told so before it does harm.
pub async fn a_report_that_names_another_job_finds_nothing(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let other = bench.submit(bench.job()).await;
    let report = RunReport { job: Some(other), ..bench.report_of(&run, Outcome::Succeeded) };
    assert_eq!(bench.report(report).await, ReportAnswer::NotFound);
    let report = RunReport { job: None, ..bench.report_of(&run, Outcome::Succeeded) };
    assert_eq!(bench.report(report).await, ReportAnswer::Recorded(JobStatus::Succeeded), "naming none is allowed");
}

pub async fn a_report_about_an_unknown_run_finds_nothing(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let report = RunReport { run: RunId::mint(bench.now(), [9; 10]), ..bench.report_of(&run, Outcome::Succeeded) };
    assert_eq!(bench.report(report).await, ReportAnswer::NotFound);
}

/// C4, R3.
pub async fn a_stale_fence_is_refused(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    for fence in [0, run.fence + 1] {
        let report = RunReport { fence: Some(fence), ..bench.report_of(&run, Outcome::Succeeded) };
        assert_eq!(bench.report(report).await, ReportAnswer::Stale { evidence: false });
    }
    assert_eq!(bench.status(run.job).await, JobStatus::Running);
    let report = RunReport { fence: None, ..bench.report_of(&run, Outcome::Succeeded) };
    assert_eq!(bench.report(report).await, ReportAnswer::Recorded(JobStatus::Succeeded), "naming none is allowed");
}

pub async fn reports_are_answered_in_their_order(bench: &Bench) {
    bench.submit_many(3).await;
    let runs = bench.claim(Claimant { wants: 3, ..bench.worker("w1") }).await;
    bench.succeed(&runs[1]).await;
    let reports = vec![
        bench.report_of(&runs[2], Outcome::Failed(ErrorClass::Permanent)),
        RunReport { run: RunId::mint(bench.now(), [9; 10]), ..bench.report_of(&runs[0], Outcome::Succeeded) },
        bench.report_of(&runs[1], Outcome::Succeeded),
        bench.report_of(&runs[0], Outcome::Succeeded),
    ];
    let answers = bench.ledger.report(reports).await.expect("the ledger hears reports");
    let wanted = [
        ReportAnswer::Recorded(JobStatus::Dead),
        ReportAnswer::NotFound,
        ReportAnswer::Duplicate,
        ReportAnswer::Recorded(JobStatus::Succeeded),
    ];
    assert_eq!(answers, wanted);
    assert!(bench.ledger.report(Vec::new()).await.expect("the ledger hears reports").is_empty());
}

/// Two reports about one job are taken one after the other, each on what the one before left.
pub async fn reports_about_one_job_are_taken_one_after_the_other(bench: &Bench) {
    let lost = bench.running(bench.job()).await;
    bench.silence().await;
    let owner = bench.start_one().await;
    let reports = vec![
        bench.report_of(&owner, Outcome::Succeeded),
        bench.report_of(&lost, Outcome::Succeeded),
        bench.report_of(&owner, Outcome::Succeeded),
    ];
    let answers = bench.ledger.report(reports).await.expect("the ledger hears reports");
    let wanted =
        [ReportAnswer::Recorded(JobStatus::Succeeded), ReportAnswer::Stale { evidence: true }, ReportAnswer::Duplicate];
    assert_eq!(answers, wanted);
}

/// Error texts come from outside. Whatever they are, the failure is recorded, and the text is bounded.
pub async fn a_failure_with_any_text_is_recorded(bench: &Bench) {
    let long = "ü".repeat(RunError::MESSAGE_MAX);
    for message in ["", "'; drop table run; --", "a\0b", "\u{1b}[2J\u{202e}", "{\"class\": 1}", long.as_str()] {
        for class in [ErrorClass::Permanent, ErrorClass::Transient] {
            let run = bench.running(bench.job()).await;
            // Built by hand, as a parser would: nobody has looked at the message yet.
            let error = RunError { class, message: message.to_owned(), retry_after_ms: None };
            let report = RunReport { error: Some(error), ..bench.report_of(&run, Outcome::Failed(class)) };
            let answer = bench.report(report).await;
            assert!(matches!(answer, ReportAnswer::Recorded(_)), "{answer:?} for {message:?}");
            let kept = bench.find(run.job).await.0.error.expect("a failure has an error");
            assert_eq!(kept.class, class);
            assert!(kept.message.len() <= RunError::MESSAGE_MAX + '…'.len_utf8());
            if !message.contains('\0') && message.len() <= RunError::MESSAGE_MAX {
                assert_eq!(kept.message, message);
            }
            bench.cancel(run.job).await;
        }
    }
    assert_eq!(bench.dead_letters().await.len(), 6);
}

pub async fn a_failure_without_a_word_has_a_word_for_it(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let report = RunReport { error: None, ..bench.report_of(&run, Outcome::Failed(ErrorClass::Timeout)) };
    bench.report(report).await;
    let error = bench.find(run.job).await.0.error.expect("a failure has an error");
    assert_eq!(error.class, ErrorClass::Timeout);
    assert!(!error.message.is_empty());
}

/// A worker that calls its own failure `lost`, or contradicts itself, is believed in what it says about the outcome.
pub async fn a_failure_by_any_name_is_a_failure(bench: &Bench) {
    for (class, called) in [(ErrorClass::Lost, ErrorClass::Lost), (ErrorClass::Transient, ErrorClass::Lost)] {
        let run = bench.running(NewJob { policy: attempts(1), ..bench.job() }).await;
        let error = Some(RunError::new(called, "gone"));
        let report = RunReport { error, ..bench.report_of(&run, Outcome::Failed(class)) };
        assert_eq!(bench.report(report).await, ReportAnswer::Recorded(JobStatus::Dead));
        let (job, runs) = bench.find(run.job).await;
        assert_eq!((job.state.failures, job.state.losses, runs[0].status), (1, 0, RunStatus::Failed));
        assert_eq!(job.error.map(|error| error.class), Some(class));
    }
}

/// A worker may end a run as canceled although nobody asked: it was told elsewhere.
pub async fn a_worker_may_cancel_its_own_run(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let answer = bench.report(bench.report_of(&run, Outcome::Canceled)).await;
    assert_eq!(answer, ReportAnswer::Recorded(JobStatus::Canceled));
    assert_eq!(bench.find(run.job).await.1[0].status, RunStatus::Canceled);
}

pub async fn the_result_of_a_failure_is_not_a_result(bench: &Bench) {
    let run = bench.running(NewJob { policy: bench::attempts(1), ..bench.job() }).await;
    let result: Arc<str> = "\"half\"".into();
    let report = RunReport { result: Some(result), ..bench.report_of(&run, Outcome::Failed(ErrorClass::Transient)) };
    bench.report(report).await;
    assert_eq!(bench.find(run.job).await.0.result, None);
}

/// A result in two pieces in the object store.
fn stored_result(run: &ClaimedRun, name: &str) -> StoredResult {
    let range = |begins, bytes| OutputRange {
        begins,
        bytes,
        sha256: [7; 32],
        encoding: Encoding::Zstd,
        key: format!("runs/{}/result/{begins}-{name}", run.run.as_uuid().simple()).into(),
    };
    StoredResult { ranges: vec![range(0, 1_000_000), range(1_000_000, 500)].into() }
}

pub async fn a_large_result_is_named_by_the_job_that_succeeded_with_it(bench: &Bench) {
    let before = bench.ledger.stored_by_tenant().await.expect("counted");
    let before = before.iter().find(|(tenant, _)| *tenant == bench.tenant).map_or(0, |(_, bytes)| *bytes);
    let run = bench.running(bench.job()).await;
    let result = stored_result(&run, "one");
    let report = RunReport { stored_result: Some(result.clone()), ..bench.report_of(&run, Outcome::Succeeded) };
    assert_eq!(bench.report(report.clone()).await, ReportAnswer::Recorded(JobStatus::Succeeded));
    let (job, _) = bench.find(run.job).await;
    assert_eq!((job.result.as_deref(), job.result_bytes), (None, Some(1_000_500)));
    let pieces = bench.ledger.list_output(run.run, OutputStream::Result, 0, 10).await.expect("read");
    assert_eq!(pieces[..], result.ranges[..]);
    let shown = bench.ledger.find_output(bench.tenant, run.job, None).await.expect("read").expect("it ran");
    assert_eq!((shown.stdout, shown.stderr), (0, 0), "a result is no output");
    let after = bench.ledger.stored_by_tenant().await.expect("counted");
    let after = after.iter().find(|(tenant, _)| *tenant == bench.tenant).map_or(0, |(_, bytes)| *bytes);
    assert!(after >= before + 1_000_500, "its bytes count: {before} to {after}");
    // Said again with other objects: the first ones stay.
    let again = RunReport { stored_result: Some(stored_result(&run, "two")), ..report };
    assert_eq!(bench.report(again).await, ReportAnswer::Duplicate);
    let pieces = bench.ledger.list_output(run.run, OutputStream::Result, 0, 10).await.expect("read");
    assert_eq!(pieces[..], result.ranges[..]);
    bench.pass_ms(100_000);
    let retention = Retention { finished_jobs_ms: 50_000, events_ms: 50_000 };
    let pruned = bench.ledger.prune(retention, PruneMark::default()).await.expect("it prunes");
    assert_eq!(pruned.outputs, [run.run], "retention says whose objects are to go");
}

pub async fn a_large_result_of_a_refused_report_is_not_named(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let report =
        RunReport { stored_result: Some(stored_result(&run, "x")), ..bench.report_of(&run, Outcome::Succeeded) };
    let foreign = RunReport { worker: worker_name("w2"), ..report.clone() };
    assert_eq!(bench.report(foreign).await, ReportAnswer::NotYours);
    let stale = RunReport { fence: Some(run.fence + 1), ..report.clone() };
    assert_eq!(bench.report(stale).await, ReportAnswer::Stale { evidence: false });
    let failed = RunReport { stored_result: report.stored_result, ..bench.report_of(&run, Outcome::Canceled) };
    bench.report(failed).await;
    assert!(bench.ledger.list_output(run.run, OutputStream::Result, 0, 10).await.expect("read").is_empty());
    assert_eq!(bench.find(run.job).await.0.result_bytes, None);
}
