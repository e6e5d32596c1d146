//! `POST /jobs/{id}/cancel`: stop a job. Work it already did stays done.

use axum::Json;
use axum::extract::State;
use bowline_model::{JobId, JobStatus};
use bowline_store::{JobOrder, OrderAnswer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::get::no_job;
use crate::app::App;
use crate::body::MaybeBody;
use crate::door::Known;
use crate::params::Named;
use crate::problem::Problem;
use crate::views::job_word;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OrderRequest {
    /// Kept with the job's history.
    pub reason: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct OrderView {
    pub job_id: JobId,
    /// `canceling` until the executor confirms.
    pub status: &'static str,
    /// False when it stood there already.
    pub changed: bool,
}

const REASON_MAX: usize = 1_000;

impl OrderRequest {
    pub fn reason(self) -> Result<Option<String>, Problem> {
        match self.reason {
            Some(reason) if reason.len() > REASON_MAX => {
                Err(Problem::validation(format!("reason has at most {REASON_MAX} bytes")))
            }
            reason => Ok(reason),
        }
    }
}

/// What an order's answer is on this face.
pub fn show(job: JobId, answer: OrderAnswer, verb: &str) -> Result<Json<OrderView>, Problem> {
    let view = |status: JobStatus, changed| Ok(Json(OrderView { job_id: job, status: job_word(status), changed }));
    match answer {
        OrderAnswer::Done(status) => view(status, true),
        OrderAnswer::Unchanged(status) => view(status, false),
        OrderAnswer::Finished(status) => {
            Err(Problem::conflict("JOB_FINISHED", format!("the job is already {}", job_word(status)))
                .with(json!({"status": job_word(status)})))
        }
        OrderAnswer::NotFrom(status) => {
            Err(Problem::conflict("JOB_NOT_READY", format!("a job that is {} cannot {verb}", job_word(status)))
                .with(json!({"status": job_word(status)})))
        }
        OrderAnswer::NotFound => Err(no_job()),
    }
}

pub async fn cancel(
    State(app): State<App>,
    known: Known,
    Named(job): Named<JobId>,
    MaybeBody(body): MaybeBody<OrderRequest>,
) -> Result<Json<OrderView>, Problem> {
    let order = JobOrder { tenant: known.tenant()?, job, by: known.actor().into(), reason: body.reason()? };
    show(job, app.engine.cancel_job(order).await?, "be canceled")
}
