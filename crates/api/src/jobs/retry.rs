//! `POST /jobs/{id}/retry`: queue a job that ended badly again.

use axum::Json;
use axum::extract::State;
use bowline_auth::Scope;
use bowline_model::JobId;
use bowline_store::OnceOutcome;
use hyper::HeaderMap;
use schemars::JsonSchema;
use serde::Deserialize;

use super::order::{OrderRequest, OrderView, show};
use crate::app::App;
use crate::body::MaybeBody;
use crate::door::Known;
use crate::once::{once_key, outcome, strange};
use crate::params::Named;
use crate::problem::Problem;
use crate::versions::may_run_again;

/// What is to be tried again.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Only {
    /// Whatever did not succeed: the job, or those of its hosts.
    #[default]
    Failed,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetryRequest {
    pub only: Only,
    /// Kept with the job's history.
    pub reason: Option<String>,
}

pub async fn retry(
    State(app): State<App>,
    known: Known,
    Named(job): Named<JobId>,
    headers: HeaderMap,
    MaybeBody(body): MaybeBody<RetryRequest>,
) -> Result<Json<OrderView>, Problem> {
    if app.engine.flows.was_approved(known.tenant()?, job).await? {
        // What was approved happens again, so the second try is a decision as well.
        known.require(Scope::ApprovalsWrite)?;
    }
    may_run_again(&app, &known, job).await?;
    let order = OrderRequest { reason: body.reason }.order(&known, job)?;
    let reason = order.reason.as_ref().map_or_else(Vec::new, |reason| [b"reason ", reason.as_bytes()].concat());
    let (commands, inventories) = (&app.engine.commands, &app.engine.inventories);
    let Some(once) = once_key(&headers, &[b"retry", &reason])? else {
        return show(job, commands.retry(inventories, order).await?, "be retried");
    };
    let key = once.key.clone();
    let (outcome, before) = outcome(&key, commands.retry_once(inventories, order, once).await?)?;
    let OnceOutcome::Retry(answer) = outcome else { return Err(strange()) };
    let Json(view) = show(job, answer, "be retried")?;
    Ok(Json(OrderView { replayed: before.is_some(), ..view }))
}
