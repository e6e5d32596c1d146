//! `GET /hosts`: the hosts of an inventory by name, all of them or those a selector means.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use bowline_engine::fleet::{CommandError, Snapshot};
use bowline_model::host::Selector;
use bowline_model::{HostName, InventoryName, TenantId};
use bowline_store::HostRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::view::{HostView, inventory_or_default, is_default};
use crate::app::App;
use crate::door::Known;
use crate::params::{Nameable, Params, page_size};
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "HostsQuery")]
pub struct ListQuery {
    /// `main` unless given.
    pub inventory: Option<InventoryName>,
    /// Which hosts, such as `role=web & site!=fra | db[1:20]`; all of them unless given.
    pub selector: Option<String>,
    pub limit: Option<u32>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct HostPage {
    pub hosts: Vec<HostView>,
    /// How many the selector means in all; only with a selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<usize>,
    pub next_cursor: Option<String>,
}

/// Reads a selector; a mistake is said with its character.
pub fn selector(text: &str) -> Result<Selector, Problem> {
    Selector::parse(text).map_err(|error| {
        let message = format!("selector: {error}");
        Problem::validation(message).with(json!({"field": "selector", "character": error.at}))
    })
}

/// The inventory as it is now; `None` for the default one before it is made.
pub async fn snapshot(app: &App, tenant: TenantId, name: &InventoryName) -> Result<Option<Arc<Snapshot>>, Problem> {
    match app.engine.inventories.snapshot(tenant, name).await? {
        None if !is_default(name) => Err(InventoryName::nothing()),
        found => Ok(found),
    }
}

/// The hosts of a snapshot that a selector means, by name.
pub async fn meant(
    tenant: TenantId,
    snapshot: Option<&Arc<Snapshot>>,
    selector: Selector,
) -> Result<Vec<&HostRecord>, Problem> {
    let Some(snapshot) = snapshot else { return Ok(Vec::new()) };
    let meant = snapshot.select(tenant, selector).await;
    let meant = meant.map_err(|_| CommandError::TooCostly { field: "selector" })?;
    Ok(meant.into_iter().filter_map(|at| snapshot.hosts.get(at)).collect())
}

pub async fn list(
    State(app): State<App>,
    known: Known,
    Params(query): Params<ListQuery>,
) -> Result<Json<HostPage>, Problem> {
    let tenant = known.tenant()?;
    let limit = page_size(query.limit, &app)?;
    let inventory = inventory_or_default(query.inventory);
    let wanted = query.selector.as_deref().map(selector).transpose()?;
    // A cursor belongs to one selection: another selector is another list.
    let list = format!("hosts {inventory} {}", query.selector.as_deref().unwrap_or(""));
    let after: Option<HostName> = match query.cursor {
        None => None,
        Some(text) => {
            let place = app.cursors.read(&list, tenant, &text)?;
            Some(HostName::new(&place).map_err(Problem::validation)?)
        }
    };
    let (items, next, total) = match wanted {
        None => {
            if !is_default(&inventory) && app.engine.ledger.find_inventory(tenant, inventory.clone()).await?.is_none() {
                return Err(InventoryName::nothing());
            }
            let page = app.engine.ledger.list_hosts(tenant, inventory.clone(), after, limit).await?;
            (page.items, page.next, None)
        }
        Some(wanted) => {
            let snapshot = snapshot(&app, tenant, &inventory).await?;
            let meant = meant(tenant, snapshot.as_ref(), wanted).await?;
            let begin = after.map_or(0, |after| meant.partition_point(|r| r.host.name.as_str() <= after.as_str()));
            let page: Vec<_> = meant[begin..].iter().take(limit as usize).map(|record| (*record).clone()).collect();
            let more = begin + page.len() < meant.len();
            let next = page.last().filter(|_| more).map(|record| record.host.name.clone());
            (page, next, Some(meant.len()))
        }
    };
    Ok(Json(HostPage {
        hosts: items.into_iter().map(|record| HostView::of(&inventory, record)).collect(),
        total,
        next_cursor: next.map(|name| app.cursors.write(&list, tenant, name.as_str())),
    }))
}
