//! An inventory: hosts and groups as somebody described them, in whatever format they came.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Connection;
use crate::name::{GroupName, HostName, Labels};

/// Variables of a host or group: any JSON under each name.
pub type Vars = serde_json::Map<String, serde_json::Value>;

/// A host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    pub name: HostName,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// The groups it is in itself; not those that these are in.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<GroupName>,
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub vars: Vars,
    #[serde(default, deserialize_with = "crate::shape::by_name")]
    pub connection: Connection,
}

impl Host {
    /// A host of which nothing is known but its name.
    pub fn named(name: HostName) -> Self {
        Self {
            name,
            labels: Labels::default(),
            groups: BTreeSet::new(),
            vars: Vars::new(),
            connection: Connection::default(),
        }
    }
}

/// A group of hosts, and of groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    pub name: GroupName,
    /// The groups in it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<GroupName>,
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub vars: Vars,
}

/// Hosts and groups together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Inventory {
    #[serde(default)]
    pub hosts: Vec<Host>,
    #[serde(default)]
    pub groups: Vec<Group>,
}
