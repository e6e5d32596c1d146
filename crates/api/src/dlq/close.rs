//! `POST /dlq/{lane}/replay` and `/purge`: what to do with dead letters. The reason is required and kept.

use axum::Json;
use axum::extract::State;
use bowline_model::dead_letter::DeadLetterStatus;
use bowline_model::{JobId, Lane};
use bowline_store::{Closed, DeadLetterChoice, DeadLetterOrder, OnceKey, OnceOutcome, OnceRequest};
use hyper::HeaderMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::body::Body;
use crate::door::Known;
use crate::once::{once_key, outcome, strange};
use crate::params::{Named, reason};
use crate::problem::Problem;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CloseRequest {
    /// Which jobs; or say `all`.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    pub job_ids: Vec<JobId>,
    /// The oldest open ones of the lane, up to `limit`.
    #[serde(default)]
    pub all: bool,
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
    /// Why. Kept for good.
    #[schemars(length(min = 3, max = 1000))]
    pub reason: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ClosedView {
    pub job_id: JobId,
    /// replayed, purged, already_closed, not_found.
    pub outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_job_id: Option<JobId>,
    /// How it was closed before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<DeadLetterStatus>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct CloseAnswer {
    pub results: Vec<ClosedView>,
    pub changed: usize,
    /// The same was requested under this `Idempotency-Key` before; these are the results of then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

const ITEMS_MAX: usize = 1_000;

fn order(known: &Known, lane: Lane, body: CloseRequest) -> Result<DeadLetterOrder, Problem> {
    let reason = reason(&body.reason)?;
    let limit = body.limit.unwrap_or(100);
    let choice = match (body.all, body.job_ids.is_empty()) {
        (true, true) if (1..=1_000).contains(&limit) => DeadLetterChoice::Oldest(limit),
        (true, true) => return Err(Problem::validation("limit must be between 1 and 1000")),
        (false, false) if body.job_ids.len() <= ITEMS_MAX => DeadLetterChoice::Jobs(body.job_ids),
        (false, false) => return Err(Problem::validation(format!("at most {ITEMS_MAX} job_ids at once"))),
        _ => return Err(Problem::validation("say which: either job_ids, or all")),
    };
    Ok(DeadLetterOrder { tenant: known.tenant()?, lane, choice, by: known.author(), reason })
}

fn show(closed: Vec<Closed>) -> Json<CloseAnswer> {
    let view = |job_id, outcome, new_job_id, status| ClosedView { job_id, outcome, new_job_id, status };
    let results: Vec<ClosedView> = closed
        .into_iter()
        .map(|closed| match closed {
            Closed::Replayed { job, new_job } => view(job, "replayed", Some(new_job), None),
            Closed::Purged { job } => view(job, "purged", None, None),
            Closed::Already { job, status, new_job } => view(job, "already_closed", new_job, Some(status)),
            Closed::NotFound { job } => view(job, "not_found", None, None),
        })
        .collect();
    let changed = results.iter().filter(|r| matches!(r.outcome, "replayed" | "purged")).count();
    Json(CloseAnswer { results, changed, replayed: false })
}

/// The caller's key, with what makes two requests under it the same.
fn once(headers: &HeaderMap, order: &DeadLetterOrder) -> Result<Option<OnceKey>, Problem> {
    let choice = match &order.choice {
        DeadLetterChoice::Oldest(limit) => format!("oldest {limit}"),
        DeadLetterChoice::Jobs(jobs) => jobs.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
    };
    once_key(headers, &[choice.as_bytes(), order.reason.as_bytes()])
}

async fn close_once(app: &App, key: OnceKey, request: OnceRequest) -> Result<Json<CloseAnswer>, Problem> {
    let name = key.key.clone();
    let (outcome, before) = outcome(&name, app.engine.ledger.carry_out_once(key, request).await?)?;
    let OnceOutcome::DeadLetters(closed) = outcome else { return Err(strange()) };
    let Json(answer) = show(closed);
    Ok(Json(CloseAnswer { replayed: before.is_some(), ..answer }))
}

pub async fn replay(
    State(app): State<App>,
    known: Known,
    Named(lane): Named<Lane>,
    headers: HeaderMap,
    Body(body): Body<CloseRequest>,
) -> Result<Json<CloseAnswer>, Problem> {
    let order = order(&known, lane, body)?;
    match once(&headers, &order)? {
        Some(key) => close_once(&app, key, OnceRequest::Replay(order)).await,
        None => Ok(show(app.engine.ledger.replay_dead_letters(order).await?)),
    }
}

pub async fn purge(
    State(app): State<App>,
    known: Known,
    Named(lane): Named<Lane>,
    headers: HeaderMap,
    Body(body): Body<CloseRequest>,
) -> Result<Json<CloseAnswer>, Problem> {
    let order = order(&known, lane, body)?;
    match once(&headers, &order)? {
        Some(key) => close_once(&app, key, OnceRequest::Purge(order)).await,
        None => Ok(show(app.engine.ledger.purge_dead_letters(order).await?)),
    }
}
