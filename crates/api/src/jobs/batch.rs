//! `POST /jobs/batch`: many wishes in one request, each answered by itself.
//!
//! Wishes that are good are stored together, in one transaction, whatever sort they are: if the ledger cannot take them, none
//! is stored and the whole request is refused. A workflow takes its first turn before that, as in `POST /jobs`. How one
//! ended that was over at once is not told here, so that the answer to a thousand wishes stays small.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use bowline_engine::flow::{Begun, Going};
use bowline_model::Timestamp;
use bowline_store::Submitted;
use hyper::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::submit::{SubmitRequest, Wish, check_task, key_conflict, request};
use crate::app::App;
use crate::body::{LargeBody, parse_checked};
use crate::context::Context;
use crate::door::Known;
use crate::flows::Unbegun;
use crate::problem::Problem;
use crate::views::job_word;

const JOBS_MAX: usize = 1_000;
const ROUTE: &str = "/jobs/batch";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRequest {
    /// Up to 1,000 wishes, each as in `POST /jobs`. A bad one does not hold up the others.
    #[schemars(with = "Vec<SubmitRequest>")]
    pub jobs: Vec<Box<RawValue>>,
}

/// What became of one wish: a job, or an error.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ItemView {
    Stored {
        id: bowline_model::JobId,
        /// The same as `id`.
        job_id: bowline_model::JobId,
        number: i64,
        status: &'static str,
        queued_at: Timestamp,
        replayed: bool,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pruned: bool,
    },
    Refused {
        error: Value,
    },
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct BatchAnswer {
    pub accepted: usize,
    pub replayed: usize,
    pub refused: usize,
    /// In the order of the wishes.
    pub results: Vec<ItemView>,
    pub request_id: Arc<str>,
    pub trace_id: Arc<str>,
}

/// What a wish comes to before anything is stored.
enum Prepared {
    /// To be stored, with the others that are; with its execution, if it is a workflow that has begun.
    New(Option<Box<Going>>),
    /// It was sent before.
    Sent(Submitted),
    Refused(Problem),
}

/// A wish that has no place in a batch.
fn alone(field: &str, why: &str) -> Problem {
    Problem::validation(format!("{field}: {why}")).with(json!({"field": field}))
}

pub async fn submit_batch(
    State(app): State<App>,
    known: Known,
    context: Context,
    headers: HeaderMap,
    LargeBody(body): LargeBody<BatchRequest>,
) -> Result<(StatusCode, Json<BatchAnswer>), Problem> {
    let tenant = known.tenant()?;
    if headers.contains_key("idempotency-key") {
        return Err(Problem::validation("a batch has no key of its own; give each job its idempotency_key"));
    }
    if body.jobs.is_empty() || body.jobs.len() > JOBS_MAX {
        return Err(Problem::validation(format!("a batch has between 1 and {JOBS_MAX} jobs")));
    }
    let now = app.engine.clock.now();
    let mut wishes = Vec::with_capacity(body.jobs.len());
    let mut prepared = Vec::with_capacity(body.jobs.len());
    for raw in &body.jobs {
        let wish = parse_checked::<SubmitRequest>(raw.get().as_bytes()).and_then(|item| request(item, None, now));
        prepared.push(match wish {
            Ok(Wish::Task(wish)) => match check_task(&app, tenant, &wish).await {
                Ok(None) => {
                    wishes.push(wish);
                    Prepared::New(None)
                }
                Ok(Some(sent)) => Prepared::Sent(sent),
                Err(problem) if problem.retry_after_s.is_some() => return Err(problem),
                Err(problem) => Prepared::Refused(problem),
            },
            Ok(Wish::Command(_)) => Prepared::Refused(alone("command", "commands on hosts are asked for one by one")),
            Ok(Wish::Workflow(wish)) => match Box::pin(wish.begin(&app, &known, &context)).await {
                Ok(Begun::New(new)) => {
                    // A thousand first turns are much to calculate; others may go in between.
                    tokio::task::yield_now().await;
                    let (wish, going) = *new;
                    wishes.push(wish);
                    Prepared::New(Some(Box::new(going)))
                }
                Ok(Begun::Sent(sent)) => Prepared::Sent(sent),
                Err(Unbegun::Refused(problem)) => Prepared::Refused(problem),
                // Nothing is stored yet, and nothing will be.
                Err(Unbegun::Later(problem)) => return Err(problem),
            },
            Err(problem) => Prepared::Refused(problem),
        });
    }
    for prepared in &prepared {
        if let Prepared::Refused(problem) = prepared {
            known.note_refused_part(&app, ROUTE, problem);
        }
    }
    let stored = if wishes.is_empty() {
        Vec::new()
    } else {
        app.engine.intake.submit(tenant, &context.origin(&known.0), wishes).await?
    };
    let mut stored = stored.into_iter();
    let mut next = || stored.next().ok_or_else(|| Problem::validation("the ledger gave no answer"));
    let mut answer = BatchAnswer {
        accepted: 0,
        replayed: 0,
        refused: 0,
        results: Vec::with_capacity(body.jobs.len()),
        request_id: context.request_id,
        trace_id: context.trace_id,
    };
    for prepared in prepared {
        let submitted = match prepared {
            Prepared::New(None) => next(),
            Prepared::New(Some(going)) => next().map(|submitted| app.engine.flows.settle(submitted, *going).submitted),
            Prepared::Sent(submitted) => Ok(submitted),
            Prepared::Refused(problem) => Err(problem),
        };
        let item = match submitted {
            Ok(Submitted::Accepted { id, number, status, at }) => {
                answer.accepted += 1;
                ItemView::Stored {
                    id,
                    job_id: id,
                    number,
                    status: job_word(status),
                    queued_at: at,
                    replayed: false,
                    pruned: false,
                }
            }
            Ok(Submitted::Replayed { id, number, status, at }) => {
                answer.replayed += 1;
                ItemView::Stored {
                    id,
                    job_id: id,
                    number,
                    status: job_word(status),
                    queued_at: at,
                    replayed: true,
                    pruned: false,
                }
            }
            Ok(Submitted::Pruned { id, number, status, at }) => {
                answer.replayed += 1;
                let status = crate::jobs::pruned_word(status);
                ItemView::Stored { id, job_id: id, number, status, queued_at: at, replayed: true, pruned: true }
            }
            Ok(Submitted::Conflict { key, .. }) => {
                answer.refused += 1;
                ItemView::Refused { error: key_conflict(&key).body() }
            }
            Err(problem) => {
                answer.refused += 1;
                ItemView::Refused { error: problem.body() }
            }
        };
        answer.results.push(item);
    }
    Ok((StatusCode::ACCEPTED, Json(answer)))
}
