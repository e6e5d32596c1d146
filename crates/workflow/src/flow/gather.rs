//! Where paths meet again.
//!
//! A join waits for the paths that can still come. A path that ended elsewhere will not, so a join that wanted all of them
//! goes on with those that came; one that wanted a number of them fails when they cannot be had any more.
//!
//! Once a join has gone on, whoever was still under way to it is *late*, and is not waited for; their paths end there. Whoever
//! comes to it later by a loop is not late: it gathers them anew.

use super::state::{Flow, Late};
use crate::node::{Gather, Shape};
use crate::program::NodeIndex;

/// Who has come to a join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrivals {
    pub count: u32,
    /// Other joins that all of them are late for.
    pub late: Late,
}

impl Arrivals {
    pub fn add(&mut self, late: &Late) {
        self.count += 1;
        self.late.retain(|join| late.contains(join));
    }
}

/// What a join does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gathered {
    Goes { arrived: u32 },
    CannotGo { arrived: u32, wanted: u32 },
}

impl Flow {
    /// A join that has something to do.
    pub(super) fn next_join(&self) -> Option<(NodeIndex, Gathered)> {
        self.arrivals.iter().find_map(|(node, arrivals)| {
            let Shape::Join(gather) = self.program.nodes[*node].node.shape() else { return None };
            let arrived = arrivals.count;
            let wanted = match gather {
                Gather::All => self.program.nodes[*node].into,
                Gather::Any => 1,
                Gather::AtLeast(n) => n,
            };
            if arrived >= wanted {
                return Some((*node, Gathered::Goes { arrived }));
            }
            if self.somebody_can_reach(*node) {
                return None;
            }
            Some((
                *node,
                match gather {
                    Gather::AtLeast(_) => Gathered::CannotGo { arrived, wanted },
                    Gather::All | Gather::Any => Gathered::Goes { arrived },
                },
            ))
        })
    }

    /// A join has gone on. What those who came are late for, whoever goes on from it is late for, too.
    pub(super) fn gathered(&mut self, join: NodeIndex) -> Late {
        let Some(arrivals) = self.arrivals.remove(&join) else { return Late::new() };
        // If somebody came by every edge, whoever comes now belongs to another round.
        if arrivals.count < self.program.nodes[join].into {
            self.leave_behind(join);
        }
        arrivals.late
    }

    /// Whoever is under way to a join is late for it.
    pub(super) fn leave_behind(&mut self, join: NodeIndex) {
        if self.tokens.is_empty() && self.arrivals.is_empty() {
            return;
        }
        let leads = self.leading_to(join);
        for token in self.tokens.iter_mut().filter(|token| leads[token.node]) {
            token.late.insert(join);
        }
        for (_, arrivals) in self.arrivals.iter_mut().filter(|(node, _)| leads[**node]) {
            arrivals.late.insert(join);
        }
    }

    /// Whether anybody who is under way can still come to a node and is waited for there.
    fn somebody_can_reach(&self, node: NodeIndex) -> bool {
        let tokens = self.tokens.iter().map(|token| (token.node, &token.late));
        let gathering = self.arrivals.iter().filter(|(at, _)| **at != node).map(|(at, a)| (*at, &a.late));
        let mut under_way = tokens.chain(gathering).filter(|(_, late)| !late.contains(&node)).peekable();
        if under_way.peek().is_none() {
            return false;
        }
        let leads = self.leading_to(node);
        under_way.any(|(at, _)| leads[at])
    }

    /// The nodes from which a path leads to this one: backwards from it, to whoever is met.
    fn leading_to(&self, node: NodeIndex) -> Vec<bool> {
        let nodes = self.program.nodes.len();
        let mut sources: Vec<Vec<NodeIndex>> = vec![Vec::new(); nodes];
        for (source, from) in self.program.nodes.iter().enumerate() {
            for (_, target) in &from.out {
                sources[*target].push(source);
            }
        }
        let mut leads = vec![false; nodes];
        let mut next = vec![node];
        while let Some(at) = next.pop() {
            // An error handler can be come to from everywhere.
            if self.program.on_error == Some(at) {
                return vec![true; nodes];
            }
            for source in &sources[at] {
                if !std::mem::replace(&mut leads[*source], true) {
                    next.push(*source);
                }
            }
        }
        leads
    }
}
