//! `DELETE /hosts/{name}`: take a host out of its inventory. What ran on it stays known.

use axum::Json;
use axum::extract::State;
use bowline_model::{HostName, InventoryName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::view::inventory_or_default;
use crate::app::App;
use crate::door::Known;
use crate::jobs::reason_of;
use crate::params::{Nameable, Named, Params};
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "HostRemoveQuery")]
pub struct RemoveQuery {
    /// `main` unless given.
    pub inventory: Option<InventoryName>,
    /// Why; kept in the audit trail.
    #[schemars(length(max = 1000))]
    pub reason: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "HostRemoved")]
pub struct RemovedView {
    pub name: HostName,
    pub inventory: InventoryName,
    pub removed: bool,
}

pub async fn remove(
    State(app): State<App>,
    known: Known,
    Named(name): Named<HostName>,
    Params(query): Params<RemoveQuery>,
) -> Result<Json<RemovedView>, Problem> {
    let inventory = inventory_or_default(query.inventory);
    let (tenant, by) = (known.tenant()?, known.author());
    let reason = reason_of(query.reason)?;
    match app.engine.ledger.remove_hosts(tenant, inventory.clone(), vec![name.clone()], by, reason).await? {
        0 => Err(HostName::nothing()),
        _ => Ok(Json(RemovedView { name, inventory, removed: true })),
    }
}
