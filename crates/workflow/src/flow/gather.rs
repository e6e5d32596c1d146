//! Where paths meet again.
//!
//! A join waits for the paths that can still come. A path that ended elsewhere will not, so a join that wanted all of them
//! goes on with those that came; one that wanted a number of them fails when they cannot be had any more.
//!
//! Once a join has gone on, whoever was still under way to it is *late*, and is not waited for; their paths end there. Whoever
//! comes to it later by a loop is not late: it gathers them anew.
//!
//! Joins may wait for each other. When nobody else can come to any of them, the first of them is told that nobody can.

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

/// Who counts as under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whom {
    /// Paths, and those who wait at joins.
    Everybody,
    Paths,
}

impl Flow {
    /// A join that has something to do.
    pub(super) fn next_join(&self) -> Option<(NodeIndex, Gathered)> {
        let mut waiting = Vec::new();
        for (node, arrivals) in &self.arrivals {
            let Shape::Join(gather) = self.program.nodes[*node].node.shape() else { continue };
            let arrived = arrivals.count;
            let wanted = match gather {
                Gather::All => self.program.nodes[*node].into,
                Gather::Any => 1,
                Gather::AtLeast(n) => n,
            };
            if arrived >= wanted {
                return Some((*node, Gathered::Goes { arrived }));
            }
            let alone = match gather {
                Gather::AtLeast(_) => Gathered::CannotGo { arrived, wanted },
                Gather::All | Gather::Any => Gathered::Goes { arrived },
            };
            if !self.somebody_can_reach(*node, Whom::Everybody) {
                return Some((*node, alone));
            }
            waiting.push((*node, alone));
        }
        // Whoever cannot be reached from a path under way waits for joins alone, and these for such joins in turn. None of them
        // had anything to do, so they go in a circle.
        if waiting.len() < 2 {
            return None;
        }
        waiting.into_iter().find(|(node, _)| !self.somebody_can_reach(*node, Whom::Paths))
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
        let leads = self.program.leads_to(join);
        for token in self.tokens.iter_mut().filter(|token| leads.from(token.node)) {
            token.late.insert(join);
        }
        for (_, arrivals) in self.arrivals.iter_mut().filter(|(node, _)| leads.from(**node)) {
            arrivals.late.insert(join);
        }
    }

    /// Whether anybody who is under way can still come to a node and is waited for there.
    fn somebody_can_reach(&self, node: NodeIndex, whom: Whom) -> bool {
        let tokens = self.tokens.iter().map(|token| (token.node, &token.late));
        let gathering = self.arrivals.iter().filter(|(at, _)| **at != node).map(|(at, a)| (*at, &a.late));
        let gathering = gathering.filter(|_| whom == Whom::Everybody);
        let mut under_way = tokens.chain(gathering).filter(|(_, late)| !late.contains(&node)).peekable();
        if under_way.peek().is_none() {
            return false;
        }
        let leads = self.program.leads_to(node);
        under_way.any(|(at, _)| leads.from(at))
    }
}
