//! `GET /jobs/{id}`: a job and its runs.

use axum::Json;
use axum::extract::State;
use bowline_model::JobId;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::door::Known;
use crate::params::{Nameable, Named};
use crate::problem::Problem;
use crate::views::{JobView, RunView};

#[derive(Debug, Serialize, JsonSchema)]
pub struct JobAnswer {
    pub job: JobView,
    /// Oldest first.
    pub runs: Vec<RunView>,
}

/// The one refusal for a job that is not there, or not the caller's.
pub fn no_job() -> Problem {
    Problem::not_found(JobId::CODE, JobId::WHAT)
}

pub async fn get(State(app): State<App>, known: Known, Named(job): Named<JobId>) -> Result<Json<JobAnswer>, Problem> {
    let found = app.engine.ledger.find_job(known.tenant()?, job).await?;
    let (job, runs) = found.ok_or_else(no_job)?;
    Ok(Json(JobAnswer { job: job.into(), runs: runs.into_iter().map(Into::into).collect() }))
}
