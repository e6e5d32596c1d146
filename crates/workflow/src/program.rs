//! A definition that was checked and is ready to run.

use std::collections::HashMap;

use bowline_model::workflow::{NodeId, NodePolicy};
use serde_json::{Map, Value};

use crate::node::{Node, Shape};
use crate::reach::{Leads, Reach};

/// A node by its place in [`Program::nodes`].
pub type NodeIndex = usize;

/// A definition that was checked and is ready to run. Shared by all runs of it.
#[derive(Debug)]
pub struct Program {
    pub nodes: Vec<ProgramNode>,
    pub by_id: HashMap<NodeId, NodeIndex>,
    pub start: NodeIndex,
    pub on_error: Option<NodeIndex>,
    pub variables: Map<String, Value>,
    pub max_steps: u32,
    pub reach: Reach,
    pub size: Size,
}

/// What a program takes: room in memory, and time on the thread that runs it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Bytes that its regular expressions occupy.
    pub pattern_bytes: usize,
    /// The most texts and trees with places that one of its nodes has.
    pub texts_of_node: usize,
    /// Whether a node evaluates its texts for each item of a list.
    pub has_loops: bool,
}

impl Size {
    /// A visit of a node with so many texts is some milliseconds at worst.
    const TEXTS_HERE: usize = 16;

    /// What is known of one more node.
    pub(crate) fn add(&mut self, compiled: usize, is_loop: bool) {
        self.texts_of_node = self.texts_of_node.max(compiled);
        self.has_loops |= is_loop;
    }
}

impl Program {
    /// From where paths lead to a node.
    pub fn leads_to(&self, node: NodeIndex) -> &Leads {
        self.reach.to(node, &self.nodes, self.on_error)
    }

    /// Whether every visit of a node is little work, whatever the context holds. Anything else is evaluated on a thread where
    /// nobody else waits.
    pub const fn is_light(&self) -> bool {
        self.size.pattern_bytes == 0 && self.size.texts_of_node <= Size::TEXTS_HERE && !self.size.has_loops
    }

    /// About how many bytes it occupies that was made of a text with so many.
    pub fn bytes(&self, text: usize) -> usize {
        // What a byte of a definition becomes: nodes, and trees of expressions.
        const OF_A_BYTE: usize = 16;
        // For each join, a bit for each node.
        let joins = self.nodes.iter().filter(|node| matches!(node.node.shape(), Shape::Join(_))).count();
        let leads = joins * self.nodes.len() / 8;
        text * OF_A_BYTE + self.nodes.len() * size_of::<ProgramNode>() + self.size.pattern_bytes + leads
    }

    /// What sort of node it is.
    pub fn type_of(&self, node: &NodeId) -> Option<&'static str> {
        self.by_id.get(node).map(|at| self.nodes[*at].node_type)
    }
}

/// One node, and where the ways out of it lead.
#[derive(Debug)]
pub struct ProgramNode {
    pub id: NodeId,
    pub node_type: &'static str,
    pub node: Box<dyn Node>,
    pub policy: NodePolicy,
    /// The edges that leave it, in the order of the definition: what they are taken on, and where they lead.
    pub out: Vec<(Way, NodeIndex)>,
    /// How many edges lead here.
    pub into: u32,
    /// The node that undoes what this one did.
    pub undo: Option<NodeIndex>,
}

/// What an edge is taken on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    Success,
    Failure,
    Always,
    Port(std::sync::Arc<str>),
}

/// What is wrong with a definition, and where in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionMistake {
    /// Such as `nodes[3].config.url`.
    pub path: String,
    pub what: String,
}
