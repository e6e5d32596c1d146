//! `POST /tasks/result`: a worker tells how its run ended.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use bowline_engine::results::ResultError;
use bowline_model::{ErrorClass, Outcome, RunError, RunId, TenantId};
use bowline_protocol::{ResultAnswer, ResultRequest, ResultStatus};
use bowline_store::{OutputAnswer, OutputStream, ReportAnswer, RunReport, StoreError, StoredResult};
use serde::Deserialize;
use serde_json::json;

use super::tell::SEQ_MAX;
use crate::app::App;
use crate::body::{ResultBody, result_too_large};
use crate::door::Known;
use crate::output::no_room;
use crate::params::Nameable;
use crate::patience::Patience;
use crate::problem::Problem;
use crate::views::{job_word, run_word};

/// The one refusal for a run that is not there, or not the caller's tenant's.
pub fn no_run() -> Problem {
    Problem::not_found(RunId::CODE, RunId::WHAT)
}

/// What simple workers put into `result` when they fail.
#[derive(Deserialize)]
struct SimpleFailure {
    error: String,
}

fn outcome_of(body: &ResultRequest) -> (Outcome, Option<RunError>) {
    match body.status {
        ResultStatus::Success => (Outcome::Succeeded, None),
        ResultStatus::Canceled => (Outcome::Canceled, None),
        ResultStatus::Failure => {
            let simple = body.result.as_ref().and_then(|r| serde_json::from_str::<SimpleFailure>(r.get()).ok());
            let error = match (&body.error, simple) {
                (Some(error), _) => RunError::new(error.class, error.message.clone()),
                (None, Some(simple)) => RunError::new(ErrorClass::Transient, simple.error),
                (None, None) => RunError::new(ErrorClass::Transient, "the worker gave no reason"),
            };
            // Only the server calls a run lost.
            let class = if error.class == ErrorClass::Lost { ErrorClass::Transient } else { error.class };
            (Outcome::Failed(class), Some(RunError { class, ..error }))
        }
    }
}

/// How long a large result may take to be stored.
pub(super) const STORE_TIME: Duration = Duration::from_secs(60);

/// Moves a result that is too large for the ledger to the object store, for a worker that has the run.
pub(super) async fn store_result(app: &App, tenant: TenantId, report: &mut RunReport) -> Result<(), Problem> {
    let results = &app.engine.results;
    let Some(result) = report.result.as_ref().filter(|result| !results.is_inline(result)) else { return Ok(()) };
    if results.check(result).is_err() {
        return Err(result_too_large(results.max()));
    }
    // Before anything is written: a report that would be refused costs one question.
    let (worker, run) = (report.worker.clone(), report.run);
    match app.engine.ledger.may_bring(tenant, worker, run, OutputStream::Result, 0).await? {
        OutputAnswer::NotYours => return Err(Problem::forbidden("this run was not handed to you")),
        OutputAnswer::NotFound => return Err(no_run()),
        // It has one: this report is a repetition, and needs none.
        OutputAnswer::Held { stored, .. } if stored > 0 => {
            report.result = None;
            return Ok(());
        }
        _ => {}
    }
    match results.store(tenant, run, result).await {
        Ok(stored) => {
            report.result = None;
            report.stored_result = Some(stored);
            Ok(())
        }
        Err(ResultError::TooLarge { max, .. }) => Err(result_too_large(max)),
        Err(ResultError::Store(error)) => Err(no_room(error)),
    }
}

/// A report with a large result ended in the middle by a mistake of ours.
pub(super) fn fell() -> Problem {
    Problem::retry_later("OUTPUT_UNAVAILABLE", "the result was not stored; report it again")
}

/// Removes a stored result that no report names. Where the ledger did not say, the objects stay until they are swept.
pub(super) async fn discard_unless_taken(
    app: &App,
    tenant: TenantId,
    stored: &StoredResult,
    answer: Result<Option<&ReportAnswer>, &StoreError>,
) {
    let keep = matches!(
        answer,
        Ok(Some(ReportAnswer::Recorded(_) | ReportAnswer::Corrected(_))) | Err(StoreError::Unknown(_))
    );
    if !keep {
        app.engine.results.discard(tenant, stored).await;
    }
}

pub async fn result(
    State(app): State<App>,
    known: Known,
    patience: Patience,
    ResultBody(body): ResultBody<ResultRequest>,
) -> Result<Json<ResultAnswer>, Problem> {
    let tenant = known.tenant()?;
    let worker = known.own_worker()?;
    if body.last_seq > SEQ_MAX {
        return Err(Problem::validation(format!("last_seq must be at most {SEQ_MAX}")));
    }
    let (outcome, error) = outcome_of(&body);
    let result = body.result.filter(|_| outcome == Outcome::Succeeded);
    let mut report = RunReport {
        exit_code: None,
        run: body.task_id,
        job: body.job_id,
        worker,
        tenant: Some(tenant),
        fence: body.fence,
        outcome,
        error,
        result: result.map(|raw| Box::<str>::from(raw).into()),
        stored_result: None,
        last_seq: body.last_seq,
    };
    let is_large = report.result.as_ref().is_some_and(|result| !app.engine.results.is_inline(result));
    let answers = if is_large {
        let reporting = {
            let app = app.clone();
            async move {
                store_result(&app, tenant, &mut report).await?;
                let stored = report.stored_result.clone();
                let answers = app.engine.ledger.report(vec![report]).await;
                if let Some(stored) = stored {
                    discard_unless_taken(&app, tenant, &stored, answers.as_ref().map(|answers| answers.first())).await;
                }
                answers.map_err(Problem::from)
            }
        };
        // Not the ledger's to answer for: the object store is waited for.
        patience.besides(STORE_TIME, app.uploads.run(reporting)).await.ok_or_else(fell)??
    } else {
        app.engine.ledger.report(vec![report]).await?
    };
    let meters = &app.engine.meters;
    let answer = |status, duplicate, late| {
        let job_status = Option::<bowline_model::JobStatus>::map(status, |s| job_word(s).to_owned());
        Ok(Json(ResultAnswer { job_status, duplicate, late }))
    };
    match answers.into_iter().next().unwrap_or(ReportAnswer::NotFound) {
        ReportAnswer::Recorded(status) => answer(Some(status), false, false),
        ReportAnswer::Duplicate => answer(None, true, false),
        ReportAnswer::Corrected(status) => {
            meters.runs_corrected.inc();
            answer(Some(status), false, true)
        }
        ReportAnswer::Stale { evidence } => {
            meters.stale_writes_refused.inc();
            let message = if evidence {
                "the lease was gone; the result was kept with its attempt, the job goes its own way"
            } else {
                "this fence is not the run's"
            };
            Err(Problem::conflict("STALE_LEASE", message).with(json!({"evidence_kept": evidence})))
        }
        ReportAnswer::Finished(status) => {
            let message = format!("the run has already ended as {}", run_word(status));
            Err(Problem::conflict("RUN_FINISHED", message).with(json!({"status": run_word(status)})))
        }
        ReportAnswer::NotYours => Err(Problem::forbidden("this run was not handed to you")),
        ReportAnswer::NotFound => Err(no_run()),
    }
}
