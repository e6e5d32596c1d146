//! `DELETE /agents/{name}`: remove an agent whose key is lost, or that is not trusted any more. Its name is free at once.

use axum::Json;
use axum::extract::State;
use bowline_model::WorkerName;
use bowline_store::RemoveAgent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::body::MaybeBody;
use crate::door::Known;
use crate::params::{Nameable, Named, Params, reason};
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "AgentRemoveQuery")]
pub struct RemoveQuery {
    /// Why; for clients that cannot send a body with a deletion.
    pub reason: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "AgentRemoveRequest")]
pub struct RemoveRequest {
    /// Why. Stored in the audit trail.
    pub reason: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AgentRemoved")]
pub struct RemovedView {
    pub name: WorkerName,
    pub removed: bool,
    /// Runs it had accepted. What became of them is unknown; their hosts are reserved until they must have ended.
    pub lost_runs: u64,
    /// Runs it had not accepted; they were returned to the queue.
    pub returned_runs: u64,
}

pub async fn remove(
    State(app): State<App>,
    known: Known,
    Named(name): Named<WorkerName>,
    Params(query): Params<RemoveQuery>,
    MaybeBody(body): MaybeBody<RemoveRequest>,
) -> Result<Json<RemovedView>, Problem> {
    let reason = reason(body.reason.or(query.reason).as_deref().unwrap_or(""))?;
    let tenant = known.tenant()?;
    let request = RemoveAgent { tenant, name: name.clone(), by: known.author(), reason };
    let removed = app.engine.ledger.remove_agent(request).await?.ok_or_else(WorkerName::nothing)?;
    removed.credentials.iter().for_each(|token| app.gate.forget(token));
    // A poll of it that still waits is answered with nothing; a new agent of this name starts undrained.
    app.engine.dispatcher.set_draining(tenant, name.clone(), true);
    app.engine.dispatcher.set_draining(tenant, name.clone(), false);
    tracing::warn!(agent.id = %name, lost_runs = removed.lost_runs, "agent removed");
    let (lost_runs, returned_runs) = (removed.lost_runs, removed.returned_runs);
    Ok(Json(RemovedView { name, removed: true, lost_runs, returned_runs }))
}
