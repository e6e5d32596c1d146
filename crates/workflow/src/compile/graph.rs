//! Who leads to whom, and the walks over it. All of them are loops: a workflow may be ten thousand nodes deep.

use std::collections::HashSet;

use crate::program::{NodeIndex, Way};

/// Nodes by number, and the edges between them.
pub(super) struct Graph {
    /// The number in the definition, where it comes from, what it is taken on, where it leads.
    edges: Vec<(usize, NodeIndex, Way, NodeIndex)>,
    /// By node: the edges that leave it, and those that lead to it, in the order of the definition.
    out: Vec<Vec<usize>>,
    into: Vec<Vec<usize>>,
    loose: LooseEnds,
}

/// Edges of which one end is not there. They are no part of the graph; what would follow from leaving them out is not reported.
#[derive(Debug, Default)]
pub(super) struct LooseEnds {
    /// Where edges lead that come from nowhere.
    pub without_source: HashSet<NodeIndex>,
    /// Where edges come from that lead nowhere.
    pub without_target: HashSet<NodeIndex>,
    /// Edges of which neither end is there.
    pub without_both: bool,
}

impl Graph {
    pub fn new(nodes: usize, edges: Vec<(usize, NodeIndex, Way, NodeIndex)>, loose: LooseEnds) -> Self {
        let (mut out, mut into) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
        for (place, (_, source, _, target)) in edges.iter().enumerate() {
            out[*source].push(place);
            into[*target].push(place);
        }
        Self { edges, out, into, loose }
    }

    /// Whether an edge has an end that is not there.
    pub fn has_loose_ends(&self) -> bool {
        self.has_loose_target() || !self.loose.without_source.is_empty()
    }

    /// Whether an edge leads to a node that is not there.
    pub fn has_loose_target(&self) -> bool {
        self.loose.without_both || !self.loose.without_target.is_empty()
    }

    /// Whether an edge leaves this node that leads nowhere.
    pub fn leads_nowhere(&self, node: NodeIndex) -> bool {
        self.loose.without_target.contains(&node)
    }

    /// Nodes to which an edge leads that comes from nowhere.
    pub fn without_source(&self) -> &HashSet<NodeIndex> {
        &self.loose.without_source
    }

    /// The edges that leave a node: number, what they are taken on, where they lead.
    pub fn out(&self, node: NodeIndex) -> impl Iterator<Item = (usize, &Way, NodeIndex)> {
        self.out[node].iter().map(|place| {
            let (number, _, way, target) = &self.edges[*place];
            (*number, way, *target)
        })
    }

    /// The edges that lead to a node: number, and where they come from.
    pub fn into(&self, node: NodeIndex) -> impl Iterator<Item = (usize, NodeIndex)> {
        self.into[node].iter().map(|place| (self.edges[*place].0, self.edges[*place].1))
    }

    /// Where each edge comes from and leads to.
    pub fn pairs(&self) -> impl Iterator<Item = (NodeIndex, NodeIndex)> {
        self.edges.iter().map(|(_, source, _, target)| (*source, *target))
    }

    /// Which nodes a path leads to from these.
    pub fn reached(&self, from: impl IntoIterator<Item = NodeIndex>) -> Vec<bool> {
        let mut reached = vec![false; self.out.len()];
        self.reach(&mut reached, from);
        reached
    }

    /// Adds the nodes that a path leads to from these, and says how many are new.
    pub fn reach(&self, reached: &mut [bool], from: impl IntoIterator<Item = NodeIndex>) -> usize {
        let mut ahead: Vec<NodeIndex> =
            from.into_iter().filter(|node| !std::mem::replace(&mut reached[*node], true)).collect();
        let mut new = ahead.len();
        while let Some(node) = ahead.pop() {
            for (_, _, target) in self.out(node) {
                if !std::mem::replace(&mut reached[target], true) {
                    ahead.push(target);
                    new += 1;
                }
            }
        }
        new
    }
}

/// Nodes that lead to one another, together; each group is listed after all groups that it leads to (Tarjan).
pub(crate) struct Groups {
    /// The group of each node.
    pub of: Vec<usize>,
    /// The nodes of each group.
    pub members: Vec<Vec<NodeIndex>>,
}

impl Groups {
    /// Groups the nodes `0..nodes` by the edges between them.
    pub fn new(nodes: usize, edges: impl Iterator<Item = (NodeIndex, NodeIndex)>) -> Self {
        const NEW: usize = usize::MAX;
        let mut out = vec![Vec::new(); nodes];
        for (source, target) in edges {
            out[source].push(target);
        }
        let (mut of, mut members) = (vec![NEW; nodes], Vec::new());
        let (mut order, mut lowest) = (vec![NEW; nodes], vec![0; nodes]);
        let (mut next, mut open, mut path) = (0, Vec::new(), Vec::new());
        for root in 0..nodes {
            if order[root] != NEW {
                continue;
            }
            path.push((root, 0));
            while let Some((node, tried)) = path.last_mut() {
                let node = *node;
                if *tried == 0 {
                    order[node] = next;
                    lowest[node] = next;
                    next += 1;
                    open.push(node);
                }
                if let Some(&target) = out[node].get(*tried) {
                    *tried += 1;
                    if order[target] == NEW {
                        path.push((target, 0));
                    } else if of[target] == NEW {
                        lowest[node] = lowest[node].min(order[target]);
                    }
                    continue;
                }
                path.pop();
                if let Some((parent, _)) = path.last() {
                    lowest[*parent] = lowest[*parent].min(lowest[node]);
                }
                if lowest[node] == order[node] {
                    let mut group = Vec::new();
                    while let Some(member) = open.pop() {
                        of[member] = members.len();
                        group.push(member);
                        if member == node {
                            break;
                        }
                    }
                    members.push(group);
                }
            }
        }
        Self { of, members }
    }
}
