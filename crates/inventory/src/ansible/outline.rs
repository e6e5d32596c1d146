//! An inventory as Ansible will see it, before it takes the form of a file: every host with its settings among its
//! variables, every group with its hosts, and the list of what Ansible would not understand.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use bowline_model::host::{GroupTree, Host, Inventory, Vars};
use bowline_model::name::{GroupName, HostName};
use serde_json::Value;

use super::gather::{PRIORITY, priority};
use super::settings::{self, LabelsAs};
use crate::draft::list_all_groups;
use crate::export::{ExportError, Lost};
use crate::nesting::{Tangled, check_nesting};
use crate::owner::Owner;
use crate::tree::Node;

pub(crate) type OutVars<'a> = Vec<(&'a str, Cow<'a, Value>)>;

pub(crate) struct OutHost<'a> {
    pub name: &'a str,
    pub vars: OutVars<'a>,
}

pub(crate) struct OutGroup<'a> {
    pub name: &'a str,
    pub hosts: Vec<&'a str>,
    pub children: Vec<&'a str>,
    pub vars: OutVars<'a>,
}

pub(crate) struct Outline<'a> {
    pub hosts: Vec<OutHost<'a>>,
    /// Without `all`, whose members go without saying.
    pub groups: Vec<OutGroup<'a>>,
    pub all_vars: OutVars<'a>,
    pub lost: Vec<Lost>,
}

/// Names that a format cannot carry, with the reason.
pub(crate) struct Restrictions {
    pub host: fn(&str) -> Option<&'static str>,
    pub group: fn(&str) -> Option<&'static str>,
    pub variable: fn(&str) -> Option<&'static str>,
}

impl Default for Restrictions {
    fn default() -> Self {
        Self { host: |_| None, group: |_| None, variable: |_| None }
    }
}

pub(crate) fn vars_node(vars: &OutVars<'_>) -> Node {
    Node::map(vars.iter().map(|(key, value)| (*key, Node::from(&**value))))
}

impl<'a> Outline<'a> {
    pub(crate) fn of(
        inventory: &'a Inventory,
        labels_as: LabelsAs,
        cannot: &Restrictions,
    ) -> Result<Self, ExportError> {
        check(inventory)?;
        let mut lost = Vec::new();
        let mut all_vars = Vec::new();
        let mut groups: BTreeMap<&GroupName, OutGroup<'a>> = BTreeMap::new();
        let mut order: Vec<&GroupName> = Vec::new();
        let listed: BTreeSet<&GroupName> = inventory.groups.iter().map(|group| &group.name).collect();
        let of_hosts = inventory.hosts.iter().flat_map(|host| &host.groups);
        let mentioned: BTreeSet<&GroupName> = of_hosts.chain(inventory.groups.iter().flat_map(|g| &g.groups)).collect();
        let unlisted = mentioned.difference(&listed).map(|name| (*name, None));
        for (name, group) in inventory.groups.iter().map(|group| (&group.name, Some(group))).chain(unlisted) {
            let vars =
                group.map_or_else(Vec::new, |group| kept(&group.vars, &Owner::Group(name.clone()), cannot, &mut lost));
            if matches!(name.as_str(), "all" | "ungrouped") && vars.is_empty() {
                lost.push(Lost::AllGroup { group: name.clone() });
            } else if name.as_str() == "all" {
                all_vars = vars;
            } else if let Some(why) = (cannot.group)(name.as_str()) {
                lost.push(Lost::Group { group: name.clone(), why });
            } else {
                order.push(name);
                groups.insert(name, OutGroup { name: name.as_str(), hosts: Vec::new(), children: Vec::new(), vars });
            }
        }
        for group in &inventory.groups {
            let children: Vec<&str> =
                group.groups.iter().filter(|child| groups.contains_key(child)).map(GroupName::as_str).collect();
            if let Some(group) = groups.get_mut(&group.name) {
                group.children = children;
            }
        }
        let mut hosts = Vec::with_capacity(inventory.hosts.len());
        for host in &inventory.hosts {
            if let Some(why) = (cannot.host)(host.name.as_str()) {
                lost.push(Lost::Host { host: host.name.clone(), why });
                continue;
            }
            let mut vars: OutVars<'a> = Vec::new();
            vars.extend(settings::of_host(host, labels_as).into_iter().map(|(key, value)| (key, Cow::Owned(value))));
            vars.extend(kept(&host.vars, &Owner::Host(host.name.clone()), cannot, &mut lost));
            let shared = GroupName::new(host.name.as_str()).is_ok_and(|name| groups.contains_key(&name));
            if shared && !vars.is_empty() {
                lost.push(Lost::SharedName { host: host.name.clone() });
            }
            for name in &host.groups {
                if let Some(group) = groups.get_mut(name) {
                    group.hosts.push(host.name.as_str());
                }
            }
            hosts.push(OutHost { name: host.name.as_str(), vars });
        }
        let groups = order.into_iter().filter_map(|name| groups.remove(name)).collect();
        Ok(Self { hosts, groups, all_vars, lost })
    }
}

/// The variables that would still be variables when Ansible, or we, read them again.
fn kept<'a>(vars: &'a Vars, owner: &Owner, cannot: &Restrictions, lost: &mut Vec<Lost>) -> OutVars<'a> {
    let mut out = Vec::with_capacity(vars.len());
    for (key, value) in vars {
        let of_group = matches!(owner, Owner::Group(_));
        let why = if settings::is_setting(key) {
            Some("it would be read as part of the connection or as labels")
        } else if settings::forbidden(key, value).is_some() {
            Some("it is a secret or encrypted, and would be refused")
        } else if of_group && key == PRIORITY && priority(value).is_none() {
            Some("it must be a whole number in Ansible")
        } else {
            (cannot.variable)(key)
        };
        match why {
            Some(why) => lost.push(Lost::Variable { owner: owner.clone(), variable: key.clone(), why }),
            None => out.push((key.as_str(), Cow::Borrowed(value))),
        }
    }
    out
}

/// No name twice, no circle, and `all` and `ungrouped` are what they are in Ansible.
fn check(inventory: &Inventory) -> Result<(), ExportError> {
    let mut hosts: BTreeSet<&HostName> = BTreeSet::new();
    if let Some(twice) = inventory.hosts.iter().find(|host| !hosts.insert(&host.name)) {
        return Err(ExportError::HostTwice(twice.name.clone()));
    }
    let mut groups: BTreeSet<&GroupName> = BTreeSet::new();
    if let Some(twice) = inventory.groups.iter().find(|group| !groups.insert(&group.name)) {
        return Err(ExportError::GroupTwice(twice.name.clone()));
    }
    let mut complete = Inventory { hosts: Vec::new(), groups: inventory.groups.clone() };
    list_all_groups(&mut complete);
    check_nesting(&complete.groups).map_err(|error| match error {
        Tangled::Circle(circle) => ExportError::Circle(circle),
        Tangled::Woven => ExportError::Woven,
    })?;
    let is_all = |name: &GroupName| name.as_str() == "all";
    let is_ungrouped = |name: &GroupName| name.as_str() == "ungrouped";
    let holders = |is: fn(&GroupName) -> bool| inventory.groups.iter().filter(move |group| group.groups.iter().any(is));
    let used =
        |name: &GroupName| groups.contains(name) || inventory.hosts.iter().any(|host| host.groups.contains(name));

    let all = GroupName::new("all").expect("letters are a name");
    if used(&all) {
        let tree = GroupTree::new(inventory.groups.iter().map(|group| (&group.name, &group.groups)))?;
        let everybody = inventory.hosts.iter().all(|host| tree.expand(&host.groups).contains(&all));
        if !everybody || holders(|name| name.as_str() == "all").next().is_some() {
            return Err(ExportError::ReservedGroup { group: all, holds: "every host" });
        }
    }
    let ungrouped = GroupName::new("ungrouped").expect("letters are a name");
    if used(&ungrouped) {
        let lonely = |host: &Host| host.groups.iter().all(|name| is_all(name) || is_ungrouped(name));
        let exactly = inventory.hosts.iter().all(|host| lonely(host) == host.groups.contains(&ungrouped));
        let nested = holders(|name| name.as_str() == "ungrouped").any(|group| !is_all(&group.name));
        let holds_groups = inventory.groups.iter().any(|group| is_ungrouped(&group.name) && !group.groups.is_empty());
        if !exactly || nested || holds_groups {
            return Err(ExportError::ReservedGroup { group: ungrouped, holds: "the hosts that have no other group" });
        }
    }
    Ok(())
}
