//! `POST /jobs/{id}/signal` and `POST /signals/{event}`: something happened, for one run or for whoever waits for it.

use axum::Json;
use axum::extract::State;
use bowline_model::JobId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::problem::not_taken;
use crate::app::App;
use crate::body::{ExactBody, MaybeBody};
use crate::door::Known;
use crate::params::{Named, Part};
use crate::problem::Problem;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TellRequest {
    /// What the event is called, such as `payment.received`.
    pub event: String,
    /// Which of them; a wait without a key hears them all.
    #[serde(default)]
    pub key: Option<String>,
    /// What the waiting node gives.
    #[serde(default)]
    pub payload: Value,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SignalRequest {
    /// Which of them; a wait without a key hears them all.
    pub key: Option<String>,
    /// What the waiting nodes give.
    pub payload: Value,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SignaledView {
    /// Runs that were told.
    pub runs: u64,
}

const NAME_BYTES_MAX: usize = 128;
const KEY_BYTES_MAX: usize = 1_024;

fn check(event: &str, key: Option<&str>) -> Result<(), Problem> {
    let blank = |c: char| c.is_control() || c.is_whitespace();
    if event.is_empty() || event.len() > NAME_BYTES_MAX || event.chars().any(blank) {
        let message = format!("event: a name has 1 to {NAME_BYTES_MAX} bytes and no blanks");
        return Err(Problem::validation(message).with(json!({"field": "event"})));
    }
    if key.is_some_and(|key| key.len() > KEY_BYTES_MAX || key.contains('\0')) {
        let message = format!("key: it has at most {KEY_BYTES_MAX} bytes and no zero byte");
        return Err(Problem::validation(message).with(json!({"field": "key"})));
    }
    Ok(())
}

/// Tells one run. It remembers what happened until it waits for it.
pub async fn tell(
    State(app): State<App>,
    known: Known,
    Named(job): Named<JobId>,
    ExactBody(body): ExactBody<TellRequest>,
) -> Result<Json<SignaledView>, Problem> {
    check(&body.event, body.key.as_deref())?;
    let (tenant, by) = (known.tenant()?, known.author());
    not_taken(app.engine.flows.tell(tenant, job, &body.event, body.key, body.payload, by).await?)?;
    Ok(Json(SignaledView { runs: 1 }))
}

/// Tells every run of the tenant that waits for it now.
pub async fn signal(
    State(app): State<App>,
    known: Known,
    Part(event): Part,
    MaybeBody(body): MaybeBody<SignalRequest>,
) -> Result<Json<SignaledView>, Problem> {
    check(&event, body.key.as_deref())?;
    let runs = app.engine.flows.signal(known.tenant()?, &event, body.key, body.payload, known.author()).await?;
    Ok(Json(SignaledView { runs }))
}
