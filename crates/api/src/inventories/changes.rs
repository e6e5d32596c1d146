//! What a description would change, without changing it.

use std::collections::{BTreeMap, BTreeSet};

use bowline_engine::fleet::Snapshot;
use bowline_model::host::{Group, Host, Inventory};
use bowline_model::{GroupName, HostName};
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
    pub fn between(before: Option<&Snapshot>, content: &Inventory, unmentioned: Unmentioned) -> Self {
        let mut changes = Self::default();
        for host in &content.hosts {
            match before.and_then(|before| before.find(&host.name)) {
                None => changes.created.push(host.name.clone()),
                Some(record) if record.host == *host => changes.unchanged += 1,
                Some(_) => changes.changed.push(host.name.clone()),
            }
        }
        if unmentioned == Unmentioned::Remove {
            let said: BTreeSet<&HostName> = content.hosts.iter().map(|host: &Host| &host.name).collect();
            let hosts = before.map_or(&[][..], |before| &before.hosts);
            let gone = hosts.iter().map(|record| &record.host.name).filter(|name| !said.contains(name));
            changes.removed = gone.cloned().collect();
        }
        let known = before.map_or(&[][..], |before| &before.groups);
        let (before, after) = (by_name(known), groups_after(known, content, unmentioned));
        let gone = before.keys().filter(|name| !after.contains_key(*name)).count();
        let other = after.iter().filter(|(name, group)| before.get(*name) != Some(*group)).count();
        changes.groups = (gone + other) as u64;
        changes
    }
}

type Groups<'a> = BTreeMap<&'a GroupName, &'a Group>;

fn by_name(groups: &[Group]) -> Groups<'_> {
    groups.iter().map(|group| (&group.name, group)).collect()
}

/// The groups there are once a description is true.
pub fn groups_after<'a>(known: &'a [Group], content: &'a Inventory, unmentioned: Unmentioned) -> Groups<'a> {
    let mut groups = match unmentioned {
        Unmentioned::Keep => by_name(known),
        Unmentioned::Remove => Groups::new(),
    };
    groups.extend(by_name(&content.groups));
    groups
}

/// What a description has to say about groups. With [`Unmentioned::Keep`], a group of which it says nothing but the name
/// is left as it is, if it is there: a table of hosts that names their groups does not empty the groups.
pub fn telling(content: &mut Inventory, known: &[Group], unmentioned: Unmentioned) {
    if unmentioned == Unmentioned::Keep {
        let known: BTreeSet<_> = known.iter().map(|group| &group.name).collect();
        content.groups.retain(|g| !g.groups.is_empty() || !g.vars.is_empty() || !known.contains(&g.name));
    }
}
