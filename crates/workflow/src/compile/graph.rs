//! Who leads to whom, and the walks over it. All of them are loops: a workflow may be ten thousand nodes deep.

use crate::program::{NodeIndex, Way};

/// Nodes by number, and the edges between them.
pub(super) struct Graph {
    /// The number in the definition, where it comes from, what it is taken on, where it leads.
    edges: Vec<(usize, NodeIndex, Way, NodeIndex)>,
    /// By node: the edges that leave it, and those that lead to it, in the order of the definition.
    out: Vec<Vec<usize>>,
    into: Vec<Vec<usize>>,
}

impl Graph {
    pub fn new(nodes: usize, edges: Vec<(usize, NodeIndex, Way, NodeIndex)>) -> Self {
        let (mut out, mut into) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
        for (place, (_, source, _, target)) in edges.iter().enumerate() {
            out[*source].push(place);
            into[*target].push(place);
        }
        Self { edges, out, into }
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
    pub fn reached(&self, from: NodeIndex, also: Option<NodeIndex>) -> Vec<bool> {
        let mut reached = vec![false; self.out.len()];
        let mut ahead: Vec<NodeIndex> = also.into_iter().chain([from]).collect();
        for node in &ahead {
            reached[*node] = true;
        }
        while let Some(node) = ahead.pop() {
            for (_, _, target) in self.out(node) {
                if !std::mem::replace(&mut reached[target], true) {
                    ahead.push(target);
                }
            }
        }
        reached
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
