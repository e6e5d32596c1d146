//! `POST /schedules/{name}/trigger`: start what a schedule starts, now, whatever it says about when.

use axum::Json;
use axum::extract::State;
use bowline_model::ResourceName;
use bowline_store::Submitted;
use hyper::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;

use super::problem::no_schedule;
use crate::app::App;
use crate::body::MaybeBody;
use crate::context::Context;
use crate::door::Known;
use crate::jobs::{IdempotencyView, SubmitAnswer, header_key, key_conflict, reason_of};
use crate::params::Part;
use crate::problem::Problem;
use crate::views::job_word;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TriggerRequest {
    /// Kept in the audit trail.
    pub reason: Option<String>,
}

pub async fn trigger(
    State(app): State<App>,
    known: Known,
    context: Context,
    Part(name): Part,
    headers: HeaderMap,
    MaybeBody(body): MaybeBody<TriggerRequest>,
) -> Result<(StatusCode, Json<SubmitAnswer>), Problem> {
    let name = ResourceName::new(&name).map_err(|_| no_schedule())?;
    let (key, reason) = (header_key(&headers)?, reason_of(body.reason)?);
    let (tenant, origin) = (known.tenant()?, context.origin(&known.0));
    let triggered = app.engine.scheduler.trigger(tenant, name, &origin, known.author(), key.clone(), reason);
    let (job_id, number, status, queued_at, replayed, pruned) = match triggered.await? {
        Submitted::Accepted { id, number, status, at } => (id, number, job_word(status), at, false, false),
        Submitted::Replayed { id, number, status, at } => (id, number, job_word(status), at, true, false),
        Submitted::Pruned { id, number, status, at } => (id, number, crate::jobs::pruned_word(status), at, true, true),
        Submitted::Conflict { key, .. } => return Err(key_conflict(&key)),
    };
    let answer = SubmitAnswer {
        id: job_id,
        job_id,
        number,
        status,
        queued_at,
        idempotency: IdempotencyView { key, replayed, pruned },
        result: None,
        error: None,
        request_id: context.request_id,
        trace_id: context.trace_id,
    };
    Ok((StatusCode::ACCEPTED, Json(answer)))
}
