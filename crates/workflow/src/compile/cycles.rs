//! Cycles: each needs a way out, and none may make more and more paths.

use std::collections::HashSet;

use bowline_model::workflow::WorkflowSpec;

use super::graph::{Graph, Groups};
use super::mistakes::Mistakes;
use super::nodes::Nodes;
use crate::node::{Node, Ports, Shape};
use crate::program::{NodeIndex, Way};

pub(super) fn check(spec: &WorkflowSpec, built: &Nodes, graph: &Graph, mistakes: &mut Mistakes) {
    let groups = Groups::new(built.len(), graph.pairs());
    for (number, members) in groups.members.iter().enumerate() {
        let within = |target: NodeIndex| groups.of[target] == number;
        if !is_cycle(members, graph, within) || members.iter().any(|node| built.get(*node).is_none()) {
            continue;
        }
        let has_way_out = members.iter().any(|node| {
            graph.leads_nowhere(*node)
                || graph.out(*node).any(|(_, _, target)| !within(target))
                || built.get(*node).is_some_and(|made| has_open_port(made, *node, graph))
        });
        if !has_way_out {
            let Some(first) = members.iter().min() else { continue };
            let what = format!("a run that comes here goes round for ever: {}", names(spec, members));
            mistakes.add(format!("nodes[{first}]"), what);
        }
    }
    check_forks(spec, built, graph, mistakes);
}

/// Within a group, whether one can come back.
fn is_cycle(members: &[NodeIndex], graph: &Graph, within: impl Fn(NodeIndex) -> bool) -> bool {
    members.len() > 1 || members.iter().any(|node| graph.out(*node).any(|(_, _, target)| within(target)))
}

/// Whether a path can end here, because a port has no edge.
fn has_open_port(node: &dyn Node, index: NodeIndex, graph: &Graph) -> bool {
    let (mut taken, mut always) = (HashSet::new(), false);
    for (_, way, _) in graph.out(index) {
        match way {
            Way::Success => drop(taken.insert("success")),
            Way::Port(port) => drop(taken.insert(&**port)),
            Way::Always => always = true,
            Way::Failure => {}
        }
    }
    match node.ports() {
        Ports::None => true,
        Ports::Success => !always && !taken.contains("success"),
        Ports::Named(ports) => !always && ports.iter().any(|port| !taken.contains(&**port)),
    }
}

/// A fork that is reached again before its paths have met at a join sends out more of them each time.
fn check_forks(spec: &WorkflowSpec, built: &Nodes, graph: &Graph, mistakes: &mut Mistakes) {
    let joins = |node: NodeIndex| built.get(node).is_some_and(|node| matches!(node.shape(), Shape::Join(_)));
    let groups = Groups::new(built.len(), graph.pairs().filter(|(_, target)| !joins(*target)));
    for index in 0..built.len() {
        let several = graph.out(index).nth(1).is_some();
        if !several || built.get(index).is_none_or(|node| node.shape() != Shape::Fork) {
            continue;
        }
        let back = graph.out(index).any(|(_, _, target)| groups.of[target] == groups.of[index] && !joins(target));
        if back {
            let members = &groups.members[groups.of[index]];
            let what = format!(
                "each time round there are more paths, because they do not meet at a `join` before they come back: {}",
                names(spec, members)
            );
            mistakes.add(format!("nodes[{index}]"), what);
        }
    }
}

fn names(spec: &WorkflowSpec, members: &[NodeIndex]) -> String {
    round(members, |node| spec.nodes[node].id.as_str())
}

/// Who belongs to a cycle, in the order of the definition.
pub(crate) fn round<'a>(members: &[usize], name: impl Fn(usize) -> &'a str) -> String {
    const NAMED_MAX: usize = 5;
    let mut members = members.to_vec();
    members.sort_unstable();
    let names: Vec<_> = members.iter().take(NAMED_MAX).map(|member| format!("`{}`", name(*member))).collect();
    let more =
        if members.len() > NAMED_MAX { format!(" and {} more", members.len() - NAMED_MAX) } else { String::new() };
    format!("{}{more}", names.join(", "))
}
