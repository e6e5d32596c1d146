//! `POST /inventories/{name}/select`: which hosts a selector means, before anything runs on them.

use axum::Json;
use axum::extract::State;
use bowline_model::{HostName, InventoryName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::body::Body;
use crate::door::Known;
use crate::hosts::{meant, selector, snapshot};
use crate::params::Named;
use crate::problem::Problem;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SelectRequest {
    /// Such as `role=web & site!=fra | db[1:20]`.
    #[schemars(length(min = 1, max = 16384))]
    pub selector: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SelectAnswer {
    pub inventory: InventoryName,
    /// As it was understood.
    pub selector: String,
    pub count: usize,
    /// The first ones, by name.
    pub hosts: Vec<HostName>,
    /// The inventory as it was when this was asked.
    pub revision: i64,
}

/// Names that are shown.
const SHOWN_MAX: usize = 20;

pub async fn select(
    State(app): State<App>,
    known: Known,
    Named(inventory): Named<InventoryName>,
    Body(body): Body<SelectRequest>,
) -> Result<Json<SelectAnswer>, Problem> {
    let selector = selector(&body.selector)?;
    let tenant = known.tenant()?;
    let snapshot = snapshot(&app, tenant, &inventory).await?;
    let text = selector.to_string();
    let meant = meant(tenant, snapshot.as_ref(), selector).await?;
    Ok(Json(SelectAnswer {
        selector: text,
        count: meant.len(),
        hosts: meant.iter().take(SHOWN_MAX).map(|record| record.host.name.clone()).collect(),
        revision: snapshot.as_ref().map_or(0, |snapshot| snapshot.revision),
        inventory,
    }))
}
