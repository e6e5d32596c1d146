//! Groups of groups: who is in what, through any number of steps.

use std::collections::{BTreeMap, BTreeSet};

use super::{Steps, TooCostly};
use crate::name::GroupName;

/// A group that is, through others, in itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the group {0} is in itself, through its own groups")]
pub struct GroupsInACircle(pub GroupName);

/// Which groups each group is in, in one step. The steps beyond it are walked when somebody asks, and each group once: spelt
/// out beforehand, a long chain of groups with many members takes more memory than any server has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupTree {
    parents: BTreeMap<GroupName, Vec<GroupName>>,
}

/// Steps for each group that is looked at on the way up.
const STEPS_PER_GROUP: usize = 10;

impl GroupTree {
    /// From the groups and what each has as its members.
    pub fn new<'a>(
        children: impl IntoIterator<Item = (&'a GroupName, &'a BTreeSet<GroupName>)>,
    ) -> Result<Self, GroupsInACircle> {
        let mut parents: BTreeMap<GroupName, Vec<GroupName>> = BTreeMap::new();
        for (parent, members) in children {
            for member in members {
                parents.entry(member.clone()).or_default().push(parent.clone());
            }
        }
        let tree = Self { parents };
        tree.check()?;
        Ok(tree)
    }

    fn parents_of(&self, group: &GroupName) -> &[GroupName] {
        self.parents.get(group).map_or(&[], Vec::as_slice)
    }

    /// Walks up from every group. A group that is met again while it is on the way is in itself.
    fn check(&self) -> Result<(), GroupsInACircle> {
        let mut is_done: BTreeMap<&GroupName, bool> = BTreeMap::new();
        for start in self.parents.keys() {
            if is_done.contains_key(start) {
                continue;
            }
            is_done.insert(start, false);
            let mut way = vec![(start, self.parents_of(start).iter())];
            while let Some((group, above)) = way.last_mut() {
                let Some(next) = above.next() else {
                    is_done.insert(group, true);
                    way.pop();
                    continue;
                };
                match is_done.get(next) {
                    Some(true) => {}
                    Some(false) => return Err(GroupsInACircle(next.clone())),
                    None => {
                        is_done.insert(next, false);
                        way.push((next, self.parents_of(next).iter()));
                    }
                }
            }
        }
        Ok(())
    }

    /// These groups and all groups they are in.
    pub fn expand(&self, own: &BTreeSet<GroupName>) -> BTreeSet<GroupName> {
        let mut steps = Steps::UNBOUNDED;
        self.expand_within(own, &mut steps).unwrap_or_default()
    }

    /// The same, as long as there are steps left.
    pub fn expand_within(
        &self,
        own: &BTreeSet<GroupName>,
        steps: &mut Steps,
    ) -> Result<BTreeSet<GroupName>, TooCostly> {
        let mut all = own.clone();
        let mut todo: Vec<&GroupName> = own.iter().collect();
        while let Some(group) = todo.pop() {
            let parents = self.parents_of(group);
            steps.take(STEPS_PER_GROUP * (1 + parents.len()))?;
            for parent in parents {
                if all.insert(parent.clone()) {
                    todo.push(parent);
                }
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
    fn each_group_and_each_membership_on_the_way_up_uses_up_steps() {
        let tree = tree(&[("a", &["b", "c"]), ("b", &["d"]), ("c", &["d"])]).expect("no circle");
        // Four groups, and four memberships between them.
        let needed = 8 * STEPS_PER_GROUP as u64;
        let mut steps = Steps::up_to(needed);
        assert_eq!(tree.expand_within(&set(&["d"]), &mut steps), Ok(set(&["a", "b", "c", "d"])));
        assert_eq!(steps.left(), 0);
        assert_eq!(tree.expand_within(&set(&["d"]), &mut Steps::up_to(needed - 1)), Err(TooCostly));
    }

    #[test]
    fn a_circle_is_refused() {
        assert_eq!(tree(&[("a", &["a"])]), Err(GroupsInACircle(name("a"))));
        assert!(tree(&[("a", &["b"]), ("b", &["c"]), ("c", &["a"])]).is_err());
    }
    /// A chain of thousands of groups, with as many members in the last one: every member is in every group.
    #[test]
    fn a_long_chain_with_many_members_takes_no_more_room_than_it_is_long() {
        let (groups, members) = (5_000, 50_000);
        let name = |n: usize| name(&format!("g{n}"));
        let of = |n: usize| {
            if n + 1 < groups { BTreeSet::from([name(n + 1)]) } else { (groups..groups + members).map(name).collect() }
        };
        let chain: Vec<_> = (0..groups).map(|n| (name(n), of(n))).collect();
        let tree = GroupTree::new(chain.iter().map(|(parent, members)| (parent, members))).expect("no circle");
        assert_eq!(tree.parents.values().map(Vec::len).sum::<usize>(), groups - 1 + members);
        let mut steps = Steps::up_to(1_000_000);
        let all = tree.expand_within(&BTreeSet::from([name(groups + 7)]), &mut steps).expect("each group once");
        assert_eq!(all.len(), groups + 1);
        assert_eq!(tree.expand_within(&all, &mut Steps::up_to(1_000)), Err(TooCostly));
    }

    /// Groups in layers, each in several of the layer above: the number of ways up multiplies with every layer.
    fn woven() -> impl Strategy<Value = Vec<(GroupName, BTreeSet<GroupName>)>> {
        (1..40_usize, 1..8_usize, proptest::collection::vec(any::<u64>(), 1..8)).prop_map(|(layers, width, chance)| {
            let name = |n: usize| name(&format!("g{n}"));
            let below = |n: usize| {
                let next = (n / width + 1) * width;
                let chosen =
                    (next..next + width).filter(|m| chance[n % chance.len()] >> (m % 64) & 1 == 1 || *m == next);
                if n / width + 1 < layers { chosen.map(name).collect() } else { BTreeSet::new() }
            };
            (0..layers * width).map(|n| (name(n), below(n))).collect()
        })
    }

    proptest! {
        #[test]
        fn a_walk_takes_one_look_at_each_membership_however_many_ways_there_are(
            groups in woven(),
            start in any::<proptest::sample::Index>(),
        ) {
            let tree = GroupTree::new(groups.iter().map(|(parent, members)| (parent, members))).expect("no circle");
            let own = BTreeSet::from([groups[start.index(groups.len())].0.clone()]);
            let memberships: usize = groups.iter().map(|(_, members)| members.len()).sum();
            let most = STEPS_PER_GROUP * (groups.len() + memberships);
            let all = tree.expand_within(&own, &mut Steps::up_to(most as u64));
            // As it is found without a tree: whatever has one of these as its member, until nothing is added.
            let mut wanted = own;
            loop {
                let more: Vec<_> =
                    groups.iter().filter(|(_, members)| !members.is_disjoint(&wanted)).map(|(name, _)| name).collect();
                let before = wanted.len();
                wanted.extend(more.into_iter().cloned());
                if wanted.len() == before {
                    break;
                }
            }
            prop_assert_eq!(all, Ok(wanted));
        }

        #[test]
        fn a_circle_is_found_wherever_it_is(groups in woven(), at in any::<proptest::sample::Index>()) {
            let mut groups = groups;
            // The first group of the last layer is below every group that has a member.
            let last = groups.iter().rposition(|(_, members)| !members.is_empty()).and_then(|n| groups[n].1.first().cloned());
            let Some(last) = last else { return Ok(()) };
            let at = at.index(groups.len());
            let tree = |groups: &[(GroupName, BTreeSet<GroupName>)]| {
                GroupTree::new(groups.iter().map(|(parent, members)| (parent, members)))
            };
            let above = tree(&groups).expect("no circle").expand(&BTreeSet::from([last.clone()]));
            let (top, _) = groups[at].clone();
            prop_assume!(above.contains(&top));
            let below = groups.iter_mut().find(|(name, _)| *name == last).expect("it is a group");
            below.1.insert(top);
            prop_assert!(tree(&groups).is_err());
        }
    }
}
