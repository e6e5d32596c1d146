//! `POST /hosts/{name}/release`: somebody knows that nothing runs on a host any more, and it need not be kept.

use axum::Json;
use axum::extract::State;
use bowline_model::{HostName, InventoryName};
use bowline_store::ReleaseOrder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::App;
use crate::body::Body;
use crate::door::Known;
use crate::hosts::inventory_or_default;
use crate::jobs::reason_of;
use crate::params::{Nameable, Named};
use crate::problem::Problem;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    /// `main` unless given.
    #[serde(default)]
    pub inventory: Option<InventoryName>,
    /// How it is known. Kept with the event that tells of it.
    pub reason: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ReleasedView {
    pub host: HostName,
    pub inventory: InventoryName,
    /// For how many missing runs it was kept.
    pub released: u64,
}

pub async fn release(
    State(app): State<App>,
    known: Known,
    Named(host): Named<HostName>,
    Body(body): Body<ReleaseRequest>,
) -> Result<Json<ReleasedView>, Problem> {
    if body.reason.trim().len() < 2 {
        return Err(Problem::validation("reason: say how you know").with(json!({"field": "reason"})));
    }
    let inventory = inventory_or_default(body.inventory);
    let order = ReleaseOrder {
        tenant: known.tenant()?,
        inventory: inventory.clone(),
        host: host.clone(),
        by: known.author(),
        reason: reason_of(Some(body.reason))?.unwrap_or_default(),
    };
    let released = app.engine.ledger.release_host(order).await?.ok_or_else(HostName::nothing)?;
    Ok(Json(ReleasedView { host, inventory, released }))
}
