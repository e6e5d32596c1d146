//! `PUT /hosts/{name}`: make a host, or make it what is said here.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use bowline_model::host::{Connection, Host, Inventory, Vars};
use bowline_model::{GroupName, HostName, Labels};
use bowline_store::{InventoryPut, PutAnswer as Stored, StoreError, Unmentioned};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::view::{HostView, InventoryQuery, inventory_or_default};
use crate::app::App;
use crate::body::ExactBody;
use crate::door::Known;
use crate::inventories::{check_count, check_hosts};
use crate::jobs::reason_of;
use crate::params::{Params, Part};
use crate::problem::Problem;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HostRequest")]
pub struct PutRequest {
    /// As in the path, if it is given.
    #[serde(default)]
    pub name: Option<HostName>,
    #[serde(default)]
    pub labels: Labels,
    /// The groups it is in itself.
    #[serde(default)]
    pub groups: BTreeSet<GroupName>,
    #[serde(default)]
    pub vars: Vars,
    /// An agent of the host's own name unless given.
    #[serde(default, deserialize_with = "bowline_model::shape::by_name")]
    pub connection: Connection,
    /// Why; kept in the audit trail.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    pub reason: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "HostStored")]
pub struct PutAnswer {
    /// created, changed, unchanged.
    pub outcome: &'static str,
    pub host: HostView,
}

pub async fn put(
    State(app): State<App>,
    known: Known,
    Part(name): Part,
    Params(query): Params<InventoryQuery>,
    ExactBody(body): ExactBody<PutRequest>,
) -> Result<(StatusCode, Json<PutAnswer>), Problem> {
    let tenant = known.tenant()?;
    let inventory = inventory_or_default(query.inventory);
    let bad = |what: String| Problem::validation(what).with(json!({"field": "name"}));
    let name = HostName::new(&name).map_err(|e| bad(e.to_string()))?;
    if body.name.as_ref().is_some_and(|other| *other != name) {
        return Err(bad("the name in the body is another one than in the path".to_owned()));
    }
    body.connection.check().map_err(|why| {
        let field = format!("connection.{}", why.field());
        Problem::validation(format!("{field}: {why}")).with(json!({"field": field}))
    })?;
    let host = Host {
        name: name.clone(),
        labels: body.labels,
        groups: body.groups,
        vars: body.vars,
        connection: body.connection,
    };
    let content = Inventory { hosts: vec![host], groups: Vec::new() };
    check_hosts(&content, &[])?;
    check_count(&app, tenant, &inventory, &content.hosts).await?;
    let put = InventoryPut {
        tenant,
        inventory: inventory.clone(),
        content: Arc::new(content),
        unmentioned: Unmentioned::Keep,
        by: known.author(),
        reason: reason_of(body.reason)?,
    };
    let room = app.engine.quotas.reserve_inventory(tenant, &put.content).map_err(StoreError::from)?;
    let putting = room.storing(app.engine.ledger.put_inventory(put), Stored::changes_something);
    let (status, outcome) = match putting.await? {
        Stored::Done(counts) if counts.created > 0 => (StatusCode::CREATED, "created"),
        Stored::Done(counts) if counts.changed > 0 => (StatusCode::OK, "changed"),
        Stored::Done(_) => (StatusCode::OK, "unchanged"),
        Stored::Circle(group) => {
            return Err(StoreError::Broken(format!("the group {group} is in itself, and no group was put")).into());
        }
    };
    let found = app.engine.ledger.find_host(tenant, inventory.clone(), name).await?;
    let found = found.ok_or_else(|| Problem::conflict("HOST_GONE", "the host was removed meanwhile"))?;
    Ok((status, Json(PutAnswer { outcome, host: HostView::of(&inventory, found) })))
}
