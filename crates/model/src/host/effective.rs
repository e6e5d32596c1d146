//! The variables a host really has: those of its groups, the nearer over the farther, and its own over all.

use std::collections::{BTreeMap, BTreeSet};

use super::{Group, Host, Vars};
use crate::name::GroupName;

/// What groups say about the hosts in them.
#[derive(Debug, Clone, Default)]
pub struct GroupVars {
    vars: BTreeMap<GroupName, Vars>,
    /// Which groups each group is in, in one step.
    parents: BTreeMap<GroupName, BTreeSet<GroupName>>,
}

impl GroupVars {
    pub fn new<'a>(groups: impl IntoIterator<Item = &'a Group>) -> Self {
        let mut all = Self::default();
        for group in groups {
            if !group.vars.is_empty() {
                all.vars.insert(group.name.clone(), group.vars.clone());
            }
            for member in &group.groups {
                all.parents.entry(member.clone()).or_default().insert(group.name.clone());
            }
        }
        all
    }

    pub fn effective(&self, host: &Host) -> Vars {
        if self.vars.is_empty() {
            return host.vars.clone();
        }
        let mut rings: Vec<BTreeSet<&GroupName>> = Vec::new();
        let mut ring: BTreeSet<&GroupName> = host.groups.iter().collect();
        let mut seen: BTreeSet<&GroupName> = BTreeSet::new();
        while !ring.is_empty() {
            seen.extend(ring.iter().copied());
            let above = ring.iter().filter_map(|group| self.parents.get(*group)).flatten();
            let above = above.filter(|group| !seen.contains(group)).collect();
            rings.push(std::mem::replace(&mut ring, above));
        }
        let mut vars = Vars::new();
        for said in rings.iter().rev().flatten().filter_map(|group| self.vars.get(*group)) {
            vars.extend(said.clone());
        }
        vars.extend(host.vars.clone());
        vars
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::name::HostName;

    fn vars(value: serde_json::Value) -> Vars {
        value.as_object().cloned().expect("an object")
    }

    fn set(names: &[&str]) -> BTreeSet<GroupName> {
        names.iter().map(|name| GroupName::new(name).expect("a name")).collect()
    }

    fn group(name: &str, members: &[&str], own: serde_json::Value) -> Group {
        Group { name: GroupName::new(name).expect("a name"), groups: set(members), vars: vars(own) }
    }

    #[test]
    fn the_nearer_group_has_the_last_word_and_the_host_after_it() {
        let groups = [
            group("all-web", &["web-fra"], json!({"a": "all-web", "b": "all-web"})),
            group("prod", &["all-web", "db"], json!({"a": "prod", "b": "prod", "c": "prod"})),
            group("web-fra", &[], json!({"a": "web-fra"})),
        ];
        let host = Host {
            groups: set(&["web-fra"]),
            vars: vars(json!({"own": 1, "a": "host"})),
            ..Host::named(HostName::new("web1").expect("a name"))
        };
        let effective = GroupVars::new(&groups).effective(&host);
        assert_eq!(effective, vars(json!({"own": 1, "a": "host", "b": "all-web", "c": "prod"})));
    }
}
