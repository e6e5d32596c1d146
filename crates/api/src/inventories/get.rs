//! `GET /inventories/{name}`: an inventory and its groups.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use bowline_engine::fleet::Snapshot;
use bowline_model::host::{Group, Vars};
use bowline_model::{GroupName, InventoryName};
use schemars::JsonSchema;
use serde::Serialize;

use super::list::InventoryView;
use crate::app::App;
use crate::door::Known;
use crate::params::{Nameable, Named};
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
) -> Result<Json<InventoryAnswer>, Problem> {
    let tenant = known.tenant()?;
    let snapshot = app.engine.inventories.snapshot(tenant, &name).await?.ok_or_else(InventoryName::nothing)?;
    let record = app.engine.ledger.find_inventory(tenant, name).await?.ok_or_else(InventoryName::nothing)?;
    let mut hosts: BTreeMap<&GroupName, usize> = BTreeMap::new();
    for record in &snapshot.hosts {
        for group in snapshot.groups_of(&record.host.name).into_iter().flatten() {
            *hosts.entry(group).or_default() += 1;
        }
    }
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
