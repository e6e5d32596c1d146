//! Hosts and groups as their tables hold them.

use std::collections::BTreeSet;

use bowline_model::host::{Connection, Group, Host, Vars};
use bowline_model::{GroupName, HostName, Labels};
use bowline_store::{HostRecord, StoreError, StoreResult};

use crate::db::Row;

/// The columns of a host, in the order [`host`] reads them.
macro_rules! host_columns {
    () => {
        "h.id, h.name, h.labels, h.groups, h.vars, h.connection, h.created_at, h.updated_at"
    };
}
pub(crate) use host_columns;

pub fn host(row: &dyn Row) -> StoreResult<HostRecord> {
    Ok(HostRecord {
        id: row.int(0)?,
        host: Host {
            name: HostName::new(&row.text(1)?).map_err(broken)?,
            labels: Labels::from_canonical(&row.text(2)?).map_err(broken)?,
            groups: group_set(&row.text(3)?)?,
            vars: vars(row.opt_text(4)?)?,
            connection: connection(&row.text(5)?)?,
        },
        created_at: row.at(6)?,
        updated_at: row.at(7)?,
    })
}

/// From the columns name, groups, vars.
pub fn group(row: &dyn Row) -> StoreResult<Group> {
    Ok(Group {
        name: GroupName::new(&row.text(0)?).map_err(broken)?,
        groups: group_set(&row.text(1)?)?,
        vars: vars(row.opt_text(2)?)?,
    })
}

/// The texts of a host's or group's columns.
pub struct Texts {
    pub labels: String,
    pub groups: String,
    pub vars: Option<String>,
    pub connection: String,
}

impl Texts {
    pub fn of(host: &Host) -> StoreResult<Self> {
        Ok(Self {
            labels: host.labels.canonical(),
            groups: group_text(&host.groups),
            vars: vars_text(&host.vars)?,
            connection: serde_json::to_string(&host.connection).map_err(broken)?,
        })
    }
}

pub fn group_text(groups: &BTreeSet<GroupName>) -> String {
    groups.iter().map(GroupName::as_str).collect::<Vec<_>>().join(" ")
}

pub fn vars_text(vars: &Vars) -> StoreResult<Option<String>> {
    if vars.is_empty() { Ok(None) } else { serde_json::to_string(vars).map(Some).map_err(broken) }
}

fn group_set(text: &str) -> StoreResult<BTreeSet<GroupName>> {
    text.split(' ').filter(|name| !name.is_empty()).map(|name| GroupName::new(name).map_err(broken)).collect()
}

fn vars(text: Option<String>) -> StoreResult<Vars> {
    text.map_or_else(|| Ok(Vars::new()), |text| serde_json::from_str(&text).map_err(broken))
}

fn connection(text: &str) -> StoreResult<Connection> {
    serde_json::from_str(text).map_err(broken)
}

fn broken(error: impl std::fmt::Display) -> StoreError {
    StoreError::Broken(format!("a stored host cannot be read: {error}"))
}
