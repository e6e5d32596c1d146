//! A definition that was checked and is ready to run.

use std::collections::HashMap;

use bowline_model::workflow::{NodeId, NodePolicy};
use serde_json::{Map, Value};

use crate::node::Node;
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
}

impl Program {
    /// From where paths lead to a node.
    pub fn leads_to(&self, node: NodeIndex) -> &Leads {
        self.reach.to(node, &self.nodes, self.on_error)
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
