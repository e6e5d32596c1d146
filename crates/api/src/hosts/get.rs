//! `GET /hosts/{name}`: a host, with what it has through its groups.

use axum::Json;
use axum::extract::State;
use bowline_model::host::Vars;
use bowline_model::{GroupName, HostName};
use schemars::JsonSchema;
use serde::Serialize;

use super::list::snapshot;
use super::view::{HostView, InventoryQuery, inventory_or_default};
use crate::app::App;
use crate::door::Known;
use crate::params::{Nameable, Named, Params};
use crate::problem::Problem;

#[derive(Debug, Serialize, JsonSchema)]
pub struct HostAnswer {
    pub host: HostView,
    /// Its groups, and all groups those are in.
    pub all_groups: Vec<GroupName>,
    /// The variables that hold for it: those of its groups, the nearer over the farther, and its own over all.
    pub effective_vars: Vars,
}

pub async fn get(
    State(app): State<App>,
    known: Known,
    Named(name): Named<HostName>,
    Params(query): Params<InventoryQuery>,
) -> Result<Json<HostAnswer>, Problem> {
    let inventory = inventory_or_default(query.inventory);
    let snapshot = snapshot(&app, known.tenant()?, &inventory).await?.ok_or_else(HostName::nothing)?;
    let record = snapshot.find(&name).ok_or_else(HostName::nothing)?;
    Ok(Json(HostAnswer {
        all_groups: snapshot.groups_of(&name).map(|groups| groups.iter().cloned().collect()).unwrap_or_default(),
        effective_vars: snapshot.vars_of(record),
        host: HostView::of(&inventory, record.clone()),
    }))
}
