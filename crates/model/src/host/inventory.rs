//! An inventory: hosts and groups as somebody described them, in whatever format they came.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Connection;
use crate::name::{GroupName, HostName, Labels};

/// Variables of a host or group: any JSON under each name.
pub type Vars = serde_json::Map<String, serde_json::Value>;

/// The variables of one host or of one group may have so many bytes as JSON.
pub const VARS_BYTES_MAX: usize = 256 << 10;

/// And those of all groups of an inventory together. They are read whenever a command that uses variables is about to
/// start on a host.
pub const GROUP_VARS_BYTES_MAX: usize = 4 << 20;

/// Hosts that an inventory may have in all, however many requests they came with.
pub const HOSTS_MAX: usize = 200_000;

/// Groups that it may have.
pub const GROUPS_MAX: usize = 10_000;

/// Members that are groups, of all groups of an inventory together. They are walked whenever somebody chooses hosts.
pub const NESTED_MAX: usize = 100_000;

/// Groups that one host may be in itself.
pub const HOST_GROUPS_MAX: usize = 1_000;

/// More groups, or groups in more groups, than there may be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TooManyGroups {
    #[error("the inventory has {count} groups, at most {GROUPS_MAX}")]
    Groups { count: usize },
    #[error(
        "the groups of the inventory have {count} groups as their members in all, at most {NESTED_MAX}; group {largest} has \
         the most"
    )]
    Nested { count: usize, largest: GroupName },
    #[error("host {name} is in {count} groups itself, at most {HOST_GROUPS_MAX}; put groups into groups instead")]
    OfHost { name: HostName, count: usize },
}

/// Whether the groups of one inventory are no more, and have no more members that are groups, than they may.
pub fn check_groups<'a>(groups: impl IntoIterator<Item = &'a Group>) -> Result<(), TooManyGroups> {
    let sizes: Vec<(usize, &GroupName)> = groups.into_iter().map(|group| (group.groups.len(), &group.name)).collect();
    if sizes.len() > GROUPS_MAX {
        return Err(TooManyGroups::Groups { count: sizes.len() });
    }
    let count = sizes.iter().map(|(members, _)| members).sum();
    match sizes.into_iter().max() {
        Some((_, largest)) if count > NESTED_MAX => Err(TooManyGroups::Nested { count, largest: largest.clone() }),
        _ => Ok(()),
    }
}

/// How long a value is as JSON.
pub fn json_bytes(value: &impl Serialize) -> usize {
    struct Length(usize);
    impl std::io::Write for Length {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut length = Length(0);
    // Neither can writing fail, nor have maps of JSON another shape.
    let _ = serde_json::to_writer(&mut length, value);
    length.0
}

/// Variables that take more room than they may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TooManyVars {
    #[error("the variables of host {name} have {bytes} bytes as JSON, at most {VARS_BYTES_MAX}")]
    Host { name: HostName, bytes: usize },
    #[error("the variables of group {name} have {bytes} bytes as JSON, at most {VARS_BYTES_MAX}")]
    Group { name: GroupName, bytes: usize },
    #[error(
        "the variables of all groups of the inventory have {bytes} bytes as JSON, at most {GROUP_VARS_BYTES_MAX}; \
         group {largest} has the most"
    )]
    Groups { bytes: usize, largest: GroupName },
}

/// Whether groups of one inventory have no more to say than they may together.
pub fn check_group_vars<'a>(groups: impl IntoIterator<Item = &'a Group>) -> Result<(), TooManyVars> {
    let sizes: Vec<(usize, &GroupName)> =
        groups.into_iter().map(|group| (json_bytes(&group.vars), &group.name)).collect();
    let bytes = sizes.iter().map(|(bytes, _)| bytes).sum();
    match sizes.into_iter().max() {
        Some((_, largest)) if bytes > GROUP_VARS_BYTES_MAX => {
            Err(TooManyVars::Groups { bytes, largest: largest.clone() })
        }
        _ => Ok(()),
    }
}

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

impl Inventory {
    /// Whether each host is in no more groups than it may be.
    pub fn check_host_groups(&self) -> Result<(), TooManyGroups> {
        match self.hosts.iter().find(|host| host.groups.len() > HOST_GROUPS_MAX) {
            Some(host) => Err(TooManyGroups::OfHost { name: host.name.clone(), count: host.groups.len() }),
            None => Ok(()),
        }
    }

    /// Whether each host and each group has no more variables than it may.
    pub fn check_vars(&self) -> Result<(), TooManyVars> {
        for host in &self.hosts {
            let bytes = json_bytes(&host.vars);
            if bytes > VARS_BYTES_MAX {
                return Err(TooManyVars::Host { name: host.name.clone(), bytes });
            }
        }
        for group in &self.groups {
            let bytes = json_bytes(&group.vars);
            if bytes > VARS_BYTES_MAX {
                return Err(TooManyVars::Group { name: group.name.clone(), bytes });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn group(n: usize, bytes: usize) -> Group {
        let name = GroupName::new(&format!("g{n}")).expect("a name");
        // The name, the quotes and the braces are eight bytes.
        let vars = json!({"v": "x".repeat(bytes - 8)});
        Group { name, groups: BTreeSet::new(), vars: vars.as_object().cloned().expect("an object") }
    }

    #[test]
    fn groups_and_groups_in_groups_are_bounded() {
        let name = |n: usize| GroupName::new(&format!("g{n}")).expect("a name");
        let of = |n: usize, members: usize| Group { groups: (0..members).map(name).collect(), ..group(n, 8) };
        let mut all: Vec<Group> = (0..GROUPS_MAX).map(|n| of(n, 10)).collect();
        assert_eq!(check_groups(&all), Ok(()));
        all[7] = of(7, 11);
        let nested = TooManyGroups::Nested { count: NESTED_MAX + 1, largest: name(7) };
        assert_eq!(check_groups(&all), Err(nested));
        all.push(of(GROUPS_MAX, 0));
        assert_eq!(check_groups(&all), Err(TooManyGroups::Groups { count: GROUPS_MAX + 1 }));
        let mut host = Host::named(HostName::new("web1").expect("a name"));
        host.groups = (0..HOST_GROUPS_MAX).map(name).collect();
        let of = |host: &Host| Inventory { hosts: vec![host.clone()], groups: Vec::new() }.check_host_groups();
        assert_eq!(of(&host), Ok(()));
        host.groups.insert(name(HOST_GROUPS_MAX));
        assert_eq!(of(&host), Err(TooManyGroups::OfHost { name: host.name.clone(), count: HOST_GROUPS_MAX + 1 }));
    }

    #[test]
    fn variables_are_bounded_for_each_and_together() {
        let of = |groups: Vec<Group>| Inventory { hosts: Vec::new(), groups };
        assert_eq!(of(vec![group(1, VARS_BYTES_MAX)]).check_vars(), Ok(()));
        let one = of(vec![group(1, VARS_BYTES_MAX + 1)]).check_vars().expect_err("too many");
        assert_eq!(one.to_string(), "the variables of group g1 have 262145 bytes as JSON, at most 262144");
        let mut host = Host::named(HostName::new("web1").expect("a name"));
        host.vars = group(1, VARS_BYTES_MAX + 1).vars;
        let one = Inventory { hosts: vec![host], groups: Vec::new() }.check_vars().expect_err("too many");
        assert!(one.to_string().contains("host web1"), "{one}");
        let mut all: Vec<Group> = (0..16).map(|n| group(n, VARS_BYTES_MAX)).collect();
        assert_eq!(check_group_vars(&all), Ok(()));
        all.push(group(16, 9));
        assert!(matches!(check_group_vars(&all), Err(TooManyVars::Groups { .. })));
    }
}
