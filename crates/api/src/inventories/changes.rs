//! What a description would change, without changing it.

use std::collections::{BTreeMap, BTreeSet};

use bowline_engine::fleet::Snapshot;
use bowline_model::HostName;
use bowline_model::host::{Group, GroupTree, GroupsInACircle, Host, Inventory};
use bowline_store::Unmentioned;

/// The difference between an inventory and a description of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub created: Vec<HostName>,
    pub changed: Vec<HostName>,
    pub unchanged: u64,
    pub removed: Vec<HostName>,
    /// Groups to be made, changed or removed.
    pub groups: u64,
}

impl Changes {
    pub fn between(
        before: Option<&Snapshot>,
        content: &Inventory,
        unmentioned: Unmentioned,
    ) -> Result<Self, GroupsInACircle> {
        let mut changes = Self::default();
        for host in &content.hosts {
            match before.and_then(|before| before.find(&host.name)) {
                None => changes.created.push(host.name.clone()),
                Some(record) if record.host == *host => changes.unchanged += 1,
                Some(_) => changes.changed.push(host.name.clone()),
            }
        }
        let known = before.map_or(&[][..], |before| &before.groups);
        let mut groups: BTreeMap<_, &Group> = known.iter().map(|group| (&group.name, group)).collect();
        if unmentioned == Unmentioned::Remove {
            let said: BTreeSet<&HostName> = content.hosts.iter().map(|host: &Host| &host.name).collect();
            let hosts = before.map_or(&[][..], |before| &before.hosts);
            let gone = hosts.iter().map(|record| &record.host.name).filter(|name| !said.contains(name));
            changes.removed = gone.cloned().collect();
            let said: BTreeSet<_> = content.groups.iter().map(|group| &group.name).collect();
            let before = groups.len();
            groups.retain(|name, _| said.contains(name));
            changes.groups += (before - groups.len()) as u64;
        }
        for group in &content.groups {
            if groups.insert(&group.name, group) != Some(group) {
                changes.groups += 1;
            }
        }
        GroupTree::new(groups.values().map(|group| (&group.name, &group.groups)))?;
        Ok(changes)
    }
}

/// What a description has to say about groups. With [`Unmentioned::Keep`], a group of which it says nothing but the name
/// is left as it is, if it is there: a table of hosts that names their groups does not empty the groups.
pub fn telling(content: &mut Inventory, known: &[Group], unmentioned: Unmentioned) {
    if unmentioned == Unmentioned::Keep {
        let known: BTreeSet<_> = known.iter().map(|group| &group.name).collect();
        content.groups.retain(|g| !g.groups.is_empty() || !g.vars.is_empty() || !known.contains(&g.name));
    }
}
