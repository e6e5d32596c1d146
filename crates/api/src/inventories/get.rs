//! `GET /inventories/{name}`: an inventory and its groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use bowline_engine::fleet::{SELECTION_STEPS_MAX, Snapshot};
use bowline_model::host::{Group, Steps, Vars};
use bowline_model::{GroupName, InventoryName};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::list::InventoryView;
use super::put::READING_MAX;
use crate::app::App;
use crate::body::aside;
use crate::door::Known;
use crate::params::{Nameable, Named};
use crate::patience::Patience;
use crate::problem::Problem;

#[derive(Debug, Serialize, JsonSchema)]
pub struct GroupView {
    pub name: GroupName,
    /// The groups in it.
    pub groups: Vec<GroupName>,
    pub vars: Vars,
    /// How many hosts are in it, through any number of groups.
    pub hosts: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct InventoryAnswer {
    pub inventory: InventoryView,
    /// By name; those that hosts or groups only mention are here, too.
    pub groups: Vec<GroupView>,
}

pub async fn get(
    State(app): State<App>,
    known: Known,
    Named(name): Named<InventoryName>,
    patience: Patience,
) -> Result<Json<InventoryAnswer>, Problem> {
    let tenant = known.tenant()?;
    let snapshot = app.engine.inventories.snapshot(tenant, &name).await?.ok_or_else(InventoryName::nothing)?;
    let record = app.engine.ledger.find_inventory(tenant, name).await?.ok_or_else(InventoryName::nothing)?;
    let counted = Arc::clone(&snapshot);
    let counting = aside(tenant, move || counted.hosts_by_group(&mut Steps::up_to(SELECTION_STEPS_MAX)));
    let hosts = patience.besides(READING_MAX, counting).await?.map_err(|_| {
        let message =
            "the hosts of this inventory are in too many groups to be counted; nest fewer groups into each other";
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "TOO_MANY_GROUPS", message)
    })?;
    let groups = all_groups(&snapshot)
        .into_iter()
        .map(|group| GroupView {
            hosts: hosts.get(&group.name).copied().unwrap_or(0),
            groups: group.groups.into_iter().collect(),
            vars: group.vars,
            name: group.name,
        })
        .collect::<Vec<_>>();
    let inventory = InventoryView { groups: groups.len() as u64, ..record.into() };
    Ok(Json(InventoryAnswer { inventory, groups }))
}

/// Every group, by name. A group exists as soon as a host or another group mentions it, whether or not it was described.
pub fn all_groups(snapshot: &Snapshot) -> Vec<Group> {
    let mentioned = snapshot.hosts.iter().flat_map(|record| &record.host.groups);
    let mentioned = mentioned.chain(snapshot.groups.iter().flat_map(|group| &group.groups));
    let mut all: BTreeMap<&GroupName, Group> = mentioned
        .map(|name| (name, Group { name: name.clone(), groups: Default::default(), vars: Vars::new() }))
        .collect();
    all.extend(snapshot.groups.iter().map(|group| (&group.name, group.clone())));
    all.into_values().collect()
}
