//! The variables a host really has: those of its groups, the nearer over the farther, and its own over all.
//!
//! A group may have as much to say as its limit allows, and a host may be in many groups. So nothing is copied but what
//! somebody asks for by name; only a host that is shown to people is shown with everything.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

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
    pub fn new(groups: impl IntoIterator<Item = Group>) -> Self {
        let mut all = Self::default();
        for group in groups {
            for member in group.groups {
                all.parents.entry(member).or_default().insert(group.name.clone());
            }
            if !group.vars.is_empty() {
                all.vars.insert(group.name, group.vars);
            }
        }
        all
    }

    /// Everything a host has.
    pub fn effective(&self, host: &Host) -> Vars {
        let mut vars = Vars::new();
        for said in self.nearest_first(&host.groups).into_iter().rev() {
            vars.extend(said.clone());
        }
        vars.extend(host.vars.clone());
        vars
    }

    /// What a host has under its variables' names, each looked up without copying any.
    pub fn of<'a>(&'a self, host: &'a Host) -> HostVars<'a> {
        self.of_host(&host.groups, &host.vars)
    }

    /// The same for a host that is in these groups and has these variables itself.
    pub fn of_host<'a>(&'a self, groups: &BTreeSet<GroupName>, own: &'a Vars) -> HostVars<'a> {
        HostVars { own, groups: self.nearest_first(groups) }
    }

    /// What the groups of a host say, beginning with those it is in itself. Of groups that are equally near, the last by
    /// name comes first.
    fn nearest_first(&self, groups: &BTreeSet<GroupName>) -> Vec<&Vars> {
        let mut all = Vec::new();
        if self.vars.is_empty() {
            return all;
        }
        let mut ring: BTreeSet<&GroupName> = groups.iter().collect();
        let mut seen: BTreeSet<&GroupName> = BTreeSet::new();
        while !ring.is_empty() {
            seen.extend(ring.iter().copied());
            all.extend(ring.iter().rev().filter_map(|group| self.vars.get(*group)));
            let above = ring.iter().filter_map(|group| self.parents.get(*group)).flatten();
            ring = above.filter(|group| !seen.contains(group)).collect();
        }
        all
    }
}

/// The variables of one host, to look up by name.
#[derive(Debug, Clone)]
pub struct HostVars<'a> {
    own: &'a Vars,
    groups: Vec<&'a Vars>,
}

impl<'a> HostVars<'a> {
    /// Those of a host whose groups say nothing.
    pub const fn own(vars: &'a Vars) -> Self {
        Self { own: vars, groups: Vec::new() }
    }

    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.own.get(name).or_else(|| self.groups.iter().find_map(|vars| vars.get(name)))
    }

    /// How many places a name is looked for in.
    pub fn places(&self) -> usize {
        1 + self.groups.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
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
        let effective = GroupVars::new(groups.clone()).effective(&host);
        assert_eq!(effective, vars(json!({"own": 1, "a": "host", "b": "all-web", "c": "prod"})));
    }

    #[test]
    fn a_name_is_looked_for_in_the_host_and_in_each_group_that_says_something() {
        let groups = GroupVars::new([
            group("prod", &["web"], json!({"a": 1})),
            group("silent", &["web"], json!({})),
            group("web", &[], json!({"b": 2})),
        ]);
        let own = vars(json!({"c": 3}));
        assert_eq!(groups.of_host(&set(&["web"]), &own).places(), 3);
        assert_eq!(groups.of_host(&set(&["silent", "other"]), &own).places(), 1);
        assert_eq!(HostVars::own(&own).places(), 1);
        assert_eq!(HostVars::own(&own).get("c"), Some(&json!(3)));
    }

    #[test]
    fn of_groups_that_are_equally_near_the_last_by_name_has_the_last_word() {
        let groups = [group("a", &[], json!({"x": "a"})), group("b", &[], json!({"x": "b"}))];
        let host = Host { groups: set(&["a", "b"]), ..Host::named(HostName::new("web1").expect("a name")) };
        assert_eq!(GroupVars::new(groups).effective(&host), vars(json!({"x": "b"})));
    }

    fn some_groups() -> impl Strategy<Value = (Vec<Group>, Host)> {
        let some_vars = || {
            let of = proptest::collection::btree_map("[a-d]", 0..9_u8, 0..4);
            of.prop_map(|all| all.into_iter().map(|(name, value)| (name, json!(value))).collect::<Vars>())
        };
        let above = || proptest::collection::btree_set(0..6_usize, 0..4);
        let groups = proptest::collection::vec((above(), some_vars()), 6);
        (groups, above(), some_vars()).prop_map(|(groups, own, vars)| {
            let name = |n: usize| GroupName::new(&format!("g{n}")).expect("a name");
            let groups = groups.into_iter().enumerate();
            let groups = groups.map(|(n, (members, vars))| Group {
                name: name(n),
                groups: members.into_iter().filter(|member| *member > n).map(name).collect(),
                vars,
            });
            let groups = groups.collect();
            let host = Host {
                groups: own.into_iter().map(name).collect(),
                vars,
                ..Host::named(HostName::new("web1").expect("a name"))
            };
            (groups, host)
        })
    }

    proptest! {
        #[test]
        fn a_name_that_is_looked_up_has_the_value_that_is_shown((groups, host) in some_groups()) {
            let groups = GroupVars::new(groups);
            let (all, looked_up) = (groups.effective(&host), groups.of(&host));
            for name in ["a", "b", "c", "d", "e"] {
                prop_assert_eq!(looked_up.get(name), all.get(name));
            }
        }
    }
}
