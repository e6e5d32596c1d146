//! `GET /jobs/{id}/why`: what a job is waiting for.

use axum::Json;
use axum::extract::State;
use bowline_model::JobId;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::get::no_job;
use crate::app::App;
use crate::door::Known;
use crate::params::Named;
use crate::problem::Problem;
use crate::views::job_word;

#[derive(Debug, Serialize, JsonSchema)]
pub struct ReasonView {
    pub code: &'static str,
    pub sentence: String,
    pub data: Value,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct WhyView {
    pub job_id: JobId,
    pub status: &'static str,
    pub sentence: String,
    pub reasons: Vec<ReasonView>,
}

pub async fn why(State(app): State<App>, known: Known, Named(job): Named<JobId>) -> Result<Json<WhyView>, Problem> {
    let why = app.engine.why(known.tenant()?, job).await?.ok_or_else(no_job)?;
    let reasons = why.reasons.into_iter();
    Ok(Json(WhyView {
        job_id: job,
        status: job_word(why.status),
        sentence: why.sentence,
        reasons: reasons.map(|r| ReasonView { code: r.code, sentence: r.sentence, data: r.data }).collect(),
    }))
}
