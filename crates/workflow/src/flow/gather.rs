//! Where paths meet again.
//!
//! A join waits for the paths that can still come. A path that ended elsewhere will not, so a join that wanted all of them
//! goes on with those that came; one that wanted a number of them fails when they cannot be had any more.
//!
//! Joins may wait for each other. When nobody else can come to any of them, the first of them is told that nobody can.

use serde::{Deserialize, Serialize};

use super::state::Flow;
use crate::node::{Gather, Shape};
use crate::program::NodeIndex;

/// Who has come to a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Arrivals {
    pub count: u32,
    /// It has gone on; those who still come are not waited for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fired: bool,
}

/// What a join does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gathered {
    Goes { arrived: u32 },
    CannotGo { arrived: u32, wanted: u32 },
}

/// Who counts as under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whom {
    /// Paths, and those who wait at joins.
    Everybody,
    Paths,
}

impl Flow {
    /// A join that has something to do. Joins that are through are forgotten on the way.
    pub(super) fn next_join(&mut self) -> Option<(NodeIndex, Gathered)> {
        if self.arrivals.is_empty() {
            return None;
        }
        let nodes: Vec<NodeIndex> = self.arrivals.keys().copied().collect();
        let mut waiting = Vec::new();
        for node in nodes {
            let Arrivals { count, fired } = self.arrivals[&node];
            let into = self.program.nodes[node].into;
            if fired {
                if count >= into || !self.somebody_can_reach(node, Whom::Everybody) {
                    self.arrivals.remove(&node);
                }
                continue;
            }
            let Shape::Join(gather) = self.program.nodes[node].node.shape() else { continue };
            let wanted = match gather {
                Gather::All => into,
                Gather::Any => 1,
                Gather::AtLeast(n) => n,
            };
            if count >= wanted {
                return Some((node, Gathered::Goes { arrived: count }));
            }
            let alone = match gather {
                Gather::AtLeast(_) => Gathered::CannotGo { arrived: count, wanted },
                Gather::All | Gather::Any => Gathered::Goes { arrived: count },
            };
            if !self.somebody_can_reach(node, Whom::Everybody) {
                return Some((node, alone));
            }
            waiting.push((node, alone));
        }
        // Whoever cannot be reached from a path under way waits for joins alone, and these for such joins in turn. None of them
        // had anything to do, so they go in a circle.
        if waiting.len() < 2 {
            return None;
        }
        waiting.into_iter().find(|(node, _)| !self.somebody_can_reach(*node, Whom::Paths))
    }

    /// Whether anybody who is under way can still come to a node: backwards from the node, to whoever is met.
    fn somebody_can_reach(&self, node: NodeIndex, whom: Whom) -> bool {
        let gathering = self.arrivals.iter().filter(|(at, a)| **at != node && !a.fired).map(|(at, _)| *at);
        let gathering = gathering.filter(|_| whom == Whom::Everybody);
        let mut under_way = vec![false; self.program.nodes.len()];
        let mut anybody = false;
        for at in self.tokens.iter().map(|token| token.node).chain(gathering) {
            under_way[at] = true;
            anybody = true;
        }
        if !anybody {
            return false;
        }
        let mut sources: Vec<Vec<NodeIndex>> = vec![Vec::new(); self.program.nodes.len()];
        for (source, from) in self.program.nodes.iter().enumerate() {
            for (_, target) in &from.out {
                sources[*target].push(source);
            }
        }
        // An error handler can be come to from everywhere.
        let mut seen = vec![false; self.program.nodes.len()];
        let mut next = vec![node];
        while let Some(at) = next.pop() {
            if self.program.on_error == Some(at) {
                return true;
            }
            for source in &sources[at] {
                if under_way[*source] {
                    return true;
                }
                if !std::mem::replace(&mut seen[*source], true) {
                    next.push(*source);
                }
            }
        }
        false
    }
}
