//! How a host is shown, and where it is looked for.

use bowline_model::host::{Connection, Vars};
use bowline_model::{GroupName, HostName, InventoryName, Labels, Timestamp};
use bowline_store::HostRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The inventory people mean when they name none. It is there, and empty, before anybody has put anything into it.
const DEFAULT: &str = "main";

/// The inventory that was named, or the one that is meant without a name.
pub fn inventory_or_default(named: Option<InventoryName>) -> InventoryName {
    named.unwrap_or_else(|| InventoryName::new(DEFAULT).expect("the name is one"))
}

/// Whether an inventory counts as empty, rather than as absent, before it is made.
pub fn is_default(name: &InventoryName) -> bool {
    name.as_str() == DEFAULT
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct InventoryQuery {
    /// `main` unless given.
    pub inventory: Option<InventoryName>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct HostView {
    /// A number that is never given twice.
    pub id: i64,
    pub name: HostName,
    pub inventory: InventoryName,
    pub labels: Labels,
    /// The groups it is in itself.
    pub groups: Vec<GroupName>,
    /// Its own variables.
    pub vars: Vars,
    pub connection: Connection,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl HostView {
    pub fn of(inventory: &InventoryName, record: HostRecord) -> Self {
        let host = record.host;
        Self {
            id: record.id,
            name: host.name,
            inventory: inventory.clone(),
            labels: host.labels,
            groups: host.groups.into_iter().collect(),
            vars: host.vars,
            connection: host.connection,
            created_at: record.created_at,
            updated_at: record.updated_at,
        }
    }
}
