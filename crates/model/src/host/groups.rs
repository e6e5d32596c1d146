//! Groups of groups: who is in what, through any number of steps.

use std::collections::{BTreeMap, BTreeSet};

use crate::name::GroupName;

/// A group that is, through others, in itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the group {0} is in itself, through its own groups")]
pub struct GroupsInACircle(pub GroupName);

/// Which groups each group is in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupTree {
    /// All ancestors of each group that has any.
    above: BTreeMap<GroupName, BTreeSet<GroupName>>,
}

impl GroupTree {
    /// From the groups and what each has as its members.
    pub fn new<'a>(
        children: impl IntoIterator<Item = (&'a GroupName, &'a BTreeSet<GroupName>)>,
    ) -> Result<Self, GroupsInACircle> {
        let mut parents: BTreeMap<&GroupName, BTreeSet<&GroupName>> = BTreeMap::new();
        for (parent, members) in children {
            for member in members {
                parents.entry(member).or_default().insert(parent);
            }
        }
        let mut above = BTreeMap::new();
        for group in parents.keys().copied() {
            let mut ancestors: BTreeSet<GroupName> = BTreeSet::new();
            let mut todo: Vec<&GroupName> = parents[group].iter().copied().collect();
            while let Some(next) = todo.pop() {
                if next == group {
                    return Err(GroupsInACircle(group.clone()));
                }
                if ancestors.insert(next.clone()) {
                    todo.extend(parents.get(next).into_iter().flatten());
                }
            }
            above.insert(group.clone(), ancestors);
        }
        Ok(Self { above })
    }

    /// These groups and all groups they are in.
    pub fn expand(&self, own: &BTreeSet<GroupName>) -> BTreeSet<GroupName> {
        let mut all = own.clone();
        all.extend(own.iter().filter_map(|group| self.above.get(group)).flatten().cloned());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> GroupName {
        GroupName::new(text).expect("a name")
    }

    fn set(names: &[&str]) -> BTreeSet<GroupName> {
        names.iter().map(|text| name(text)).collect()
    }

    fn tree(groups: &[(&str, &[&str])]) -> Result<GroupTree, GroupsInACircle> {
        let owned: Vec<_> = groups.iter().map(|(parent, members)| (name(parent), set(members))).collect();
        GroupTree::new(owned.iter().map(|(parent, members)| (parent, members)))
    }

    #[test]
    fn membership_goes_up_through_any_number_of_steps() {
        let tree = tree(&[("all-web", &["web-fra", "web-ams"]), ("prod", &["all-web", "db"])]).expect("no circle");
        assert_eq!(tree.expand(&set(&["web-fra"])), set(&["web-fra", "all-web", "prod"]));
        assert_eq!(tree.expand(&set(&["db", "other"])), set(&["db", "other", "prod"]));
    }

    #[test]
    fn two_ways_up_are_one_membership() {
        let tree = tree(&[("a", &["b", "c"]), ("b", &["d"]), ("c", &["d"])]).expect("no circle");
        assert_eq!(tree.expand(&set(&["d"])), set(&["a", "b", "c", "d"]));
    }

    #[test]
    fn a_circle_is_refused() {
        assert_eq!(tree(&[("a", &["a"])]), Err(GroupsInACircle(name("a"))));
        assert!(tree(&[("a", &["b"]), ("b", &["c"]), ("c", &["a"])]).is_err());
    }
}
