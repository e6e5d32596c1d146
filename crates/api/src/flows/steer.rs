//! `POST /jobs/{id}/steer`: stop a run, let it take a step, change what it knows, let it go on.

use axum::Json;
use axum::extract::State;
use bowline_auth::Scope;
use bowline_model::wording::in_plain_words;
use bowline_model::{JobId, TenantId};
use bowline_store::{FlowAnswer, StoreError};
use bowline_workflow::flow::Order;
use hyper::HeaderMap;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::problem::not_taken;
use crate::app::App;
use crate::body::ExactBody;
use crate::door::Known;
use crate::jobs::{no_job, reason_of};
use crate::once::once_key;
use crate::params::{Named, reason};
use crate::problem::Problem;
use crate::views::job_word;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SteerRequest {
    /// `"step"`, `"continue"`, `"pause"`, `{"run_to": node}`, `{"break": {node, when}}`, `{"unbreak": node}`,
    /// `{"edit": {variable: value}}`, `{"pin": {node, output}}` or `{"unpin": node}`.
    #[serde(deserialize_with = "order")]
    pub order: Order,
    /// Why. Needed to edit.
    #[serde(default)]
    pub reason: Option<String>,
}

/// What an order looks like, for whoever sent something else.
const SHAPE: &str = "an order is \"step\", \"continue\", \"pause\", {\"run_to\": node}, {\"break\": {node, when}}, \
                     {\"unbreak\": node}, {\"edit\": {variable: value}}, {\"pin\": {node, output}} or {\"unpin\": node}";

fn order<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Order, D::Error> {
    let value = Value::deserialize(deserializer)?;
    match &value {
        Value::String(_) => {}
        Value::Object(fields) if fields.len() == 1 => {}
        _ => return Err(D::Error::custom(SHAPE)),
    }
    Order::deserialize(value).map_err(|error| {
        let what = in_plain_words(&error.to_string());
        D::Error::custom(format_args!("{what}; {SHAPE}"))
    })
}

/// How the run stands once the order was heard.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SteeredView {
    pub job_id: JobId,
    pub status: &'static str,
    pub paused_for: Option<String>,
    /// Where it is.
    pub node: Option<String>,
    /// Steps that are over.
    pub steps: u32,
    /// Whether the same was ordered under this key before, and nothing was done now.
    pub replayed: bool,
}

pub async fn steer(
    State(app): State<App>,
    known: Known,
    Named(job): Named<JobId>,
    headers: HeaderMap,
    ExactBody(body): ExactBody<SteerRequest>,
) -> Result<Json<SteeredView>, Problem> {
    let tenant = known.tenant()?;
    // What people are asked about is changed by those who may decide it.
    if body.order.changes_what_follows() && app.engine.flows.asks_people(tenant, job).await? {
        known.require(Scope::ApprovalsWrite)?;
    }
    let why = match &body.order {
        Order::Edit(variables) if variables.is_empty() => {
            return Err(Problem::validation("order.edit: name a variable").with(json!({"field": "order.edit"})));
        }
        Order::Edit(_) => Some(reason(body.reason.as_deref().unwrap_or_default())?),
        _ => reason_of(body.reason)?,
    };
    let order = serde_json::to_string(&body.order).map_err(|error| StoreError::Broken(error.to_string()))?;
    let once = once_key(&headers, &[order.as_bytes(), why.as_deref().unwrap_or_default().as_bytes()])?;
    let answer = app.engine.flows.steer_once(tenant, job, body.order, known.author(), why, once).await?;
    not_taken(answer)?;
    let view = show(&app, &known, job).await?;
    Ok(Json(SteeredView { replayed: answer == FlowAnswer::Replayed, ..view }))
}

/// Lets a run hear what it was told. It is stored already: where this fails, the run hears it a little later.
pub async fn hear(app: &App, tenant: TenantId, job: JobId) {
    if let Err(error) = app.engine.turn_flow(tenant, job).await {
        tracing::warn!("runs of workflows hear what they were told a little later: {error}");
    }
}

/// The run, as soon as it has heard what it was told.
async fn show(app: &App, known: &Known, job: JobId) -> Result<SteeredView, Problem> {
    let tenant = known.tenant()?;
    hear(app, tenant, job).await;
    let (record, _) = app.engine.ledger.find_job(tenant, job).await?.ok_or_else(no_job)?;
    let flow = app.engine.ledger.find_flow(tenant, job).await?.ok_or_else(no_job)?;
    Ok(SteeredView {
        job_id: job,
        status: job_word(record.state.status),
        paused_for: flow.paused_for,
        node: flow.node,
        steps: flow.steps,
        replayed: false,
    })
}
