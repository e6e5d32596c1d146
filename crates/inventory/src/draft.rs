//! An inventory in the making: what all formats have in common once their hosts and groups are spelt out.
//!
//! Here hosts and groups are counted, duplicates are judged, groups that are only mentioned are added, and circles are
//! refused. What leaves keeps the order in which things were described; groups that nobody described come last, by name.

use std::collections::{BTreeSet, HashMap};

use bowline_model::host::{Group, Host, Inventory, Vars};
use bowline_model::name::{GroupName, HostName};

use crate::error::ImportError;
use crate::limits::{GROUPS_MAX, HOSTS_MAX, MENTIONS_MAX};
use crate::nesting::{Tangled, check_nesting};
use crate::place::{At, Place};

#[derive(Debug, Default)]
pub(crate) struct Draft {
    hosts: Vec<Host>,
    groups: Vec<Group>,
    host_index: HashMap<HostName, usize>,
    group_index: HashMap<GroupName, usize>,
    mentions: usize,
}

impl Draft {
    /// Adds a host. The same one twice is one; the same name with other words is a mistake.
    pub(crate) fn host(&mut self, host: Host, at: At<'_>) -> Result<(), ImportError> {
        if let Some(index) = self.host_index.get(&host.name) {
            if self.hosts[*index] == host {
                return Ok(());
            }
            let (what, name) = ("the host", host.name.to_string());
            return Err(ImportError::Contradiction { at: at.place(), what, name });
        }
        if self.hosts.len() >= HOSTS_MAX {
            return Err(too_many("hosts", HOSTS_MAX, at));
        }
        self.mentions += host.groups.len();
        if self.mentions > MENTIONS_MAX {
            return Err(too_many("memberships of hosts in groups", MENTIONS_MAX, at));
        }
        self.host_index.insert(host.name.clone(), self.hosts.len());
        self.hosts.push(host);
        Ok(())
    }

    pub(crate) fn group(&mut self, group: Group, at: At<'_>) -> Result<(), ImportError> {
        if let Some(index) = self.group_index.get(&group.name) {
            if self.groups[*index] == group {
                return Ok(());
            }
            let (what, name) = ("the group", group.name.to_string());
            return Err(ImportError::Contradiction { at: at.place(), what, name });
        }
        if self.groups.len() >= GROUPS_MAX {
            return Err(too_many("groups", GROUPS_MAX, at));
        }
        self.group_index.insert(group.name.clone(), self.groups.len());
        self.groups.push(group);
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<Inventory, ImportError> {
        let mut inventory = Inventory { hosts: self.hosts, groups: self.groups };
        list_all_groups(&mut inventory);
        if inventory.groups.len() > GROUPS_MAX {
            return Err(too_many("groups", GROUPS_MAX, At::default()));
        }
        check_nesting(&inventory.groups).map_err(|error| match error {
            Tangled::Circle(why) => {
                ImportError::Circle { at: Place { line: None, path: Some(format!("groups.{}", why.0)) }, why }
            }
            Tangled::Woven => ImportError::Woven { at: Place { line: None, path: Some("groups".to_owned()) } },
        })?;
        Ok(inventory)
    }
}

pub(crate) fn too_many(what: &'static str, max: usize, at: At<'_>) -> ImportError {
    ImportError::TooMany { at: at.place(), what, max }
}

/// Adds the groups that are mentioned by hosts and groups, and described by nobody.
pub(crate) fn list_all_groups(inventory: &mut Inventory) {
    let of_hosts = inventory.hosts.iter().flat_map(|host| &host.groups);
    let mut mentioned: BTreeSet<&GroupName> = of_hosts.collect();
    mentioned.extend(inventory.groups.iter().flat_map(|group| &group.groups));
    for group in &inventory.groups {
        mentioned.remove(&group.name);
    }
    let missing: Vec<GroupName> = mentioned.into_iter().cloned().collect();
    let bare = |name| Group { name, groups: BTreeSet::new(), vars: Vars::new() };
    inventory.groups.extend(missing.into_iter().map(bare));
}
