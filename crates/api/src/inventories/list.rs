//! `GET /inventories`: every inventory, without what is in it.

use axum::Json;
use axum::extract::State;
use bowline_model::{InventoryName, Timestamp};
use bowline_store::InventoryRecord;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::door::Known;
use crate::problem::Problem;

#[derive(Debug, Serialize, JsonSchema)]
pub struct InventoryView {
    pub name: InventoryName,
    pub hosts: u64,
    pub groups: u64,
    /// Grows with every change of a host or group.
    pub revision: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl From<InventoryRecord> for InventoryView {
    fn from(record: InventoryRecord) -> Self {
        Self {
            name: record.name,
            hosts: record.hosts,
            groups: record.groups,
            revision: record.revision,
            created_at: record.created_at,
            updated_at: record.updated_at,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct InventoryList {
    pub inventories: Vec<InventoryView>,
}

pub async fn list(State(app): State<App>, known: Known) -> Result<Json<InventoryList>, Problem> {
    let inventories = app.engine.ledger.list_inventories(known.tenant()?).await?;
    Ok(Json(InventoryList { inventories: inventories.into_iter().map(Into::into).collect() }))
}
