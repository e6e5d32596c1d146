//! Groups in groups: no circles, not woven without end, and how deep each one lies.
//!
//! To find which groups a host is in, all of them are walked up through. That is right for inventories that people have, and
//! slow for one that somebody made for the purpose; so this is asked first, and costs one look at each membership.

use std::collections::BTreeMap;

use bowline_model::host::{Group, GroupsInACircle};
use bowline_model::name::GroupName;

use crate::limits::WAYS_UP_MAX;

/// What is wrong with the nesting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Tangled {
    #[error(transparent)]
    Circle(#[from] GroupsInACircle),
    #[error("the groups are nested in too many ways")]
    Woven,
}

/// Whether groups can be told apart from what they are in. Asked before anything spells out their nesting.
pub fn check_nesting(groups: &[Group]) -> Result<(), Tangled> {
    let names: Vec<&GroupName> = groups.iter().map(|group| &group.name).collect();
    let index: BTreeMap<&GroupName, usize> = names.iter().enumerate().map(|(index, name)| (*name, index)).collect();
    let members = |group: &Group| group.groups.iter().filter_map(|name| index.get(name).copied()).collect();
    let children: Vec<Vec<usize>> = groups.iter().map(members).collect();
    depths(&names, &children).map(|_| ())
}

/// The depth of each group: 0 for those in no other, else one more than the deepest group it is in.
pub(crate) fn depths(names: &[&GroupName], children: &[Vec<usize>]) -> Result<Vec<u32>, Tangled> {
    let mut parents_left = vec![0u32; names.len()];
    for child in children.iter().flatten() {
        parents_left[*child] += 1;
    }
    let mut depth = vec![0u32; names.len()];
    let mut ways = vec![0u64; names.len()];
    let mut ready: Vec<usize> = (0..names.len()).filter(|group| parents_left[*group] == 0).collect();
    let (mut settled, mut all_ways) = (0, 0u64);
    while let Some(group) = ready.pop() {
        settled += 1;
        all_ways = all_ways.saturating_add(ways[group]);
        for child in children[group].iter().copied() {
            depth[child] = depth[child].max(depth[group] + 1);
            ways[child] = ways[child].saturating_add(ways[group]).saturating_add(1);
            parents_left[child] -= 1;
            if parents_left[child] == 0 {
                ready.push(child);
            }
        }
    }
    if settled < names.len() {
        return Err(Tangled::Circle(GroupsInACircle(names[on_circle(children, &parents_left)].clone())));
    }
    if all_ways > WAYS_UP_MAX { Err(Tangled::Woven) } else { Ok(depth) }
}

/// Some group on a circle. Every group that was never settled has a parent that was not either, so that walking up must
/// come back to where it has been.
fn on_circle(children: &[Vec<usize>], parents_left: &[u32]) -> usize {
    let mut parent_of = vec![None; children.len()];
    for (parent, members) in children.iter().enumerate().filter(|(parent, _)| parents_left[*parent] > 0) {
        for member in members {
            parent_of[*member] = Some(parent);
        }
    }
    let mut seen = vec![false; children.len()];
    let mut group = parents_left.iter().position(|left| *left > 0).unwrap_or(0);
    while !seen[group] {
        seen[group] = true;
        group = parent_of[group].unwrap_or(group);
    }
    group
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(names: &[&str], children: &[(usize, &[usize])]) -> Result<Vec<u32>, String> {
        let names: Vec<GroupName> = names.iter().map(|name| GroupName::new(name).expect("a name")).collect();
        let mut lists = vec![Vec::new(); names.len()];
        for (parent, members) in children {
            lists[*parent] = members.to_vec();
        }
        depths(&names.iter().collect::<Vec<_>>(), &lists).map_err(|error| match error {
            Tangled::Circle(circle) => circle.to_string(),
            Tangled::Woven => "woven".to_owned(),
        })
    }

    #[test]
    fn the_longest_way_up_is_the_depth() {
        assert_eq!(judged(&["a", "b", "c", "d"], &[(0, &[1, 2]), (1, &[2]), (2, &[3])]), Ok(vec![0, 1, 2, 3]));
    }

    #[test]
    fn a_circle_is_found_and_who_only_hangs_below_it_is_not_blamed() {
        let said = judged(&["below", "a", "b"], &[(1, &[2, 0]), (2, &[1])]).expect_err("a circle");
        assert!(said == "the group a is in itself, through its own groups" || said.contains("group b"), "{said}");
        assert!(judged(&["a"], &[(0, &[0])]).is_err());
    }

    #[test]
    fn groups_that_are_woven_into_each_other_are_refused_in_good_time() {
        let layers = 100;
        let names: Vec<String> = (0..layers * 10).map(|n| format!("g{n}")).collect();
        let names: Vec<GroupName> = names.iter().map(|name| GroupName::new(name).expect("a name")).collect();
        let below =
            |n: usize| if n / 10 + 1 < layers { ((n / 10 + 1) * 10..(n / 10 + 2) * 10).collect() } else { vec![] };
        let children: Vec<Vec<usize>> = (0..layers * 10).map(below).collect();
        assert_eq!(depths(&names.iter().collect::<Vec<_>>(), &children), Err(Tangled::Woven));
    }
}
