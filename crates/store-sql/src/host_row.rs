//! Hosts and groups as their tables hold them.

use std::collections::BTreeSet;
use std::fmt;

use bowline_model::host::{Connection, Group, Host, Vars};
use bowline_model::{GroupName, HostName, Labels};
use bowline_store::{HostRecord, StoreError, StoreResult};
use serde::Deserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};

use crate::db::Row;

/// The columns of a host, in the order [`host`] reads them.
macro_rules! host_columns {
    () => {
        "h.id, h.name, h.labels, h.groups, h.vars, h.connection, h.created_at, h.updated_at"
    };
}
pub(crate) use host_columns;

/// The same without the variables, for those who do not use them.
macro_rules! host_columns_without_vars {
    () => {
        "h.id, h.name, h.labels, h.groups, null, h.connection, h.created_at, h.updated_at"
    };
}
pub(crate) use host_columns_without_vars;

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

/// The same, with those variables only that somebody asks for, and how many bytes all of them have.
pub fn group_with(row: &dyn Row, names: &BTreeSet<&str>) -> StoreResult<(Group, usize)> {
    let text = row.opt_text(2)?.unwrap_or_default();
    let group = Group {
        name: GroupName::new(&row.text(0)?).map_err(broken)?,
        groups: group_set(&row.text(1)?)?,
        vars: vars_named(&text, names)?,
    };
    Ok((group, text.len()))
}

/// Of these variables those that somebody asks for. The others are passed over, and not kept for a moment.
pub fn vars_named(text: &str, names: &BTreeSet<&str>) -> StoreResult<Vars> {
    struct Named<'a>(&'a BTreeSet<&'a str>);
    impl<'de> Visitor<'de> for Named<'_> {
        type Value = Vars;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("variables")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vars, A::Error> {
            let mut vars = Vars::new();
            while let Some(name) = map.next_key::<String>()? {
                if self.0.contains(name.as_str()) {
                    vars.insert(name, map.next_value()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(vars)
        }
    }
    if text.is_empty() || names.is_empty() {
        return Ok(Vars::new());
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.deserialize_map(Named(names)).map_err(broken)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_variables_are_read_that_somebody_asks_for() {
        let text = r#"{"a":{"b":[1,2]},"long":["x",{"y":{}}],"c":null}"#;
        let of = |names: &[&str]| {
            serde_json::Value::Object(vars_named(text, &names.iter().copied().collect()).expect("read"))
        };
        assert_eq!(of(&["a", "none", "c"]).to_string(), r#"{"a":{"b":[1,2]},"c":null}"#);
        assert_eq!(of(&[]).to_string(), "{}");
        assert!(vars_named("", &BTreeSet::from(["a"])).expect("read").is_empty());
        assert!(vars_named("[1]", &BTreeSet::from(["a"])).is_err());
    }
}
