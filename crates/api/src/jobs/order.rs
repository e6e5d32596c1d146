//! What a person's order about one job looks like, whatever the order is.

use axum::Json;
use bowline_model::{JobId, JobStatus};
use bowline_store::{JobOrder, OrderAnswer, RetryNeeds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::get::no_job;
use crate::door::Known;
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
    /// The same was requested under this `Idempotency-Key` before; this is what it led to then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

const REASON_MAX: usize = 1_000;

impl OrderRequest {
    pub fn order(self, known: &Known, job: JobId) -> Result<JobOrder, Problem> {
        Ok(JobOrder { tenant: known.tenant()?, job, by: known.author(), reason: reason_of(self.reason)? })
    }
}

/// A reason as somebody gave it.
pub fn reason_of(reason: Option<String>) -> Result<Option<String>, Problem> {
    match reason {
        Some(reason) if reason.len() > REASON_MAX || reason.contains('\0') => {
            Err(Problem::validation(format!("reason has at most {REASON_MAX} bytes and no zero byte")))
        }
        reason => Ok(reason),
    }
}

/// What an order's answer is on this face.
pub fn show(job: JobId, answer: OrderAnswer, verb: &str) -> Result<Json<OrderView>, Problem> {
    let view = |status: JobStatus, changed| {
        Ok(Json(OrderView { job_id: job, status: job_word(status), changed, replayed: false }))
    };
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
        OrderAnswer::LetterClosed => {
            let message = "its dead letter was replayed as another job or purged; submit a new job instead";
            Err(Problem::conflict("DEAD_LETTER_CLOSED", message))
        }
        OrderAnswer::NeedsApproval(RetryNeeds::OtherPerson) => Err(Problem::forbidden(
            "four eyes: the execution was approved, and a second try repeats the approval; the person who started or changed it \
             cannot give it",
        )),
        OrderAnswer::NeedsApproval(RetryNeeds::People(people)) => {
            let message = format!(
                "{people} people approved the first try, and one alone cannot repeat that; \
                 fork the execution from before the question, where they are asked again"
            );
            Err(Problem::conflict("APPROVAL_DECIDED", message).with(json!({"quorum": people})))
        }
        OrderAnswer::NotFound => Err(no_job()),
    }
}
