//! `POST /tasks/result`: a worker tells how its run ended.

use axum::Json;
use axum::extract::State;
use bowline_model::{ErrorClass, Outcome, RunError, RunId};
use bowline_protocol::{ResultAnswer, ResultRequest, ResultStatus};
use bowline_store::{ReportAnswer, RunReport};
use serde::Deserialize;
use serde_json::json;

use super::tell::SEQ_MAX;
use crate::app::App;
use crate::body::Body;
use crate::door::Known;
use crate::params::Nameable;
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

pub async fn result(
    State(app): State<App>,
    known: Known,
    Body(body): Body<ResultRequest>,
) -> Result<Json<ResultAnswer>, Problem> {
    let tenant = known.tenant()?;
    let worker = known.own_worker()?;
    if body.last_seq > SEQ_MAX {
        return Err(Problem::validation(format!("last_seq must be at most {SEQ_MAX}")));
    }
    let (outcome, error) = outcome_of(&body);
    let result = body.result.filter(|_| outcome == Outcome::Succeeded);
    let report = RunReport {
        exit_code: None,
        run: body.task_id,
        job: body.job_id,
        worker,
        tenant: Some(tenant),
        fence: body.fence,
        outcome,
        error,
        result: result.map(|raw| Box::<str>::from(raw).into()),
        last_seq: body.last_seq,
    };
    let answers = app.engine.ledger.report(vec![report]).await?;
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
