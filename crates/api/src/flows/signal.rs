//! `POST /jobs/{id}/signal` and `POST /signals/{event}`: something happened, for one run or for whoever waits for it.

use axum::Json;
use axum::extract::State;
use bowline_engine::flow::Told;
use bowline_model::JobId;
use bowline_store::{FlowAnswer, PENDING_SIGNALS_MAX, Signaled};
use hyper::HeaderMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::problem::{inbox_full, not_taken};
use crate::app::App;
use crate::body::{ExactBody, MaybeBody};
use crate::door::Known;
use crate::jobs::key_conflict;
use crate::once::once_key;
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
    /// Executions that wait for it. Where they are many, some are told a little later.
    pub runs: u64,
    /// Whether the same was sent under this key before, and nobody was told now.
    pub replayed: bool,
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

/// What makes two signals under one key the same.
fn parts<'a>(event: &'a str, key: Option<&'a str>, payload: &'a str) -> [&'a [u8]; 4] {
    let has_key: &[u8] = if key.is_some() { b"1" } else { b"0" };
    [event.as_bytes(), has_key, key.unwrap_or("").as_bytes(), payload.as_bytes()]
}

/// Tells one run. It remembers what happened until it waits for it.
pub async fn tell(
    State(app): State<App>,
    known: Known,
    Named(job): Named<JobId>,
    headers: HeaderMap,
    ExactBody(body): ExactBody<TellRequest>,
) -> Result<Json<SignaledView>, Problem> {
    check(&body.event, body.key.as_deref())?;
    let once = once_key(&headers, &parts(&body.event, body.key.as_deref(), &body.payload.to_string()))?;
    let event = Told { event: &body.event, key: body.key, payload: body.payload, once };
    let answer = app.engine.flows.tell_once(known.tenant()?, job, event, known.author()).await?;
    not_taken(answer)?;
    Ok(Json(SignaledView { runs: 1, replayed: answer == FlowAnswer::Replayed }))
}

/// Tells every run of the tenant that waits for it now.
pub async fn signal(
    State(app): State<App>,
    known: Known,
    Part(event): Part,
    headers: HeaderMap,
    MaybeBody(body): MaybeBody<SignalRequest>,
) -> Result<Json<SignaledView>, Problem> {
    check(&event, body.key.as_deref())?;
    let once = once_key(&headers, &parts(&event, body.key.as_deref(), &body.payload.to_string()))?;
    let key = once.as_ref().map(|once| once.key.clone());
    let told = Told { event: &event, key: body.key, payload: body.payload, once };
    match app.engine.flows.signal_once(known.tenant()?, told, known.author()).await? {
        Signaled::Told(runs) => Ok(Json(SignaledView { runs, replayed: false })),
        Signaled::Replayed(runs) => Ok(Json(SignaledView { runs, replayed: true })),
        Signaled::KeyConflict => Err(key_conflict(&key.unwrap_or_default())),
        Signaled::Full(has) => Err(inbox_full(has, PENDING_SIGNALS_MAX)),
    }
}
