//! From where paths lead to a node.
//!
//! A join asks this after every step of a run, and a definition may have thousands of edges, so it is worked out once for each
//! join that is asked for, and kept with the program.

use std::sync::OnceLock;

use crate::program::{NodeIndex, ProgramNode};

/// For each node, from where paths lead to it: once somebody has asked.
#[derive(Debug, Default)]
pub struct Reach(Vec<OnceLock<Leads>>);

impl Reach {
    pub fn of(nodes: usize) -> Self {
        Self(std::iter::repeat_with(OnceLock::new).take(nodes).collect())
    }

    /// From where paths lead to this node.
    pub fn to(&self, node: NodeIndex, nodes: &[ProgramNode], on_error: Option<NodeIndex>) -> &Leads {
        self.0[node].get_or_init(|| Leads::work_out(node, nodes, on_error))
    }
}

/// The nodes from which a path leads to one node, a bit each.
#[derive(Debug)]
pub struct Leads(Box<[u64]>);

impl Leads {
    pub fn from(&self, node: NodeIndex) -> bool {
        self.0[node / 64] >> (node % 64) & 1 == 1
    }

    fn add(&mut self, node: NodeIndex) -> bool {
        let is_new = !self.from(node);
        self.0[node / 64] |= 1 << (node % 64);
        is_new
    }

    /// Backwards from the node, to whoever is met.
    fn work_out(node: NodeIndex, nodes: &[ProgramNode], on_error: Option<NodeIndex>) -> Self {
        let mut sources: Vec<Vec<NodeIndex>> = vec![Vec::new(); nodes.len()];
        for (source, from) in nodes.iter().enumerate() {
            for (_, target) in &from.out {
                sources[*target].push(source);
            }
        }
        let words = nodes.len().div_ceil(64);
        let mut leads = Self(vec![0; words].into());
        let mut next = vec![node];
        while let Some(at) = next.pop() {
            // An error handler can be come to from everywhere.
            if on_error == Some(at) {
                return Self(vec![u64::MAX; words].into());
            }
            next.extend(sources[at].iter().filter(|source| leads.add(**source)));
        }
        leads
    }
}
