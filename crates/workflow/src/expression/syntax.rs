//! What an expression says, as a tree.
//!
//! Chains are lists here (`a ~ b ~ c`, `x | f | g`), so that the tree is only as deep as its writer nested it, and whoever
//! walks it needs no more stack than that.

use std::sync::Arc;

use serde_json::Value;

use super::{functions::Function, pattern::Pattern, scope::Root};

#[derive(Debug)]
pub(super) struct Node {
    /// Where it begins in the text.
    pub at: u32,
    pub kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Constant(Value),
    Path { root: Root, root_end: u32, segments: Box<[Segment]> },
    Within { of: Box<Node>, segments: Box<[Segment]> },
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
    Negative(Box<Node>),
    Not(Box<Node>),
    All(Vec<Node>),
    Any(Vec<Node>),
    Compare(Comparison, Box<(Node, Node)>),
    Is { of: Box<Node>, test: Test, negated: bool },
    Calculate { first: Box<Node>, rest: Vec<(Arithmetic, Node)> },
    Concat(Vec<Node>),
    Choose(Box<Choice>),
    Pipe { first: Box<Node>, calls: Vec<Call> },
}

#[derive(Debug)]
pub(super) struct Segment {
    pub key: Key,
    /// Where it ends in the text.
    pub end: u32,
}

#[derive(Debug)]
pub(super) enum Key {
    Name(Box<str>),
    Index(i64),
    Computed(Node),
}

#[derive(Debug)]
pub(super) struct Choice {
    pub condition: Node,
    pub then: Node,
    pub otherwise: Node,
}

/// A function with everything but its first argument, which is what stands before the `|`.
#[derive(Debug)]
pub(super) struct Call {
    pub function: Function,
    pub at: u32,
    pub arguments: Box<[Node]>,
    /// What `matches` looks for, compiled once.
    pub pattern: Option<Arc<Pattern>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Different,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    DivideWhole,
    Remainder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    Defined,
    Null,
    Text,
    Number,
    Integer,
    Boolean,
    List,
    Object,
}

impl Test {
    pub const NAMES: &str = "defined, null, string, number, integer, boolean, list or object";

    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "defined" => Self::Defined,
            "null" | "none" => Self::Null,
            "string" => Self::Text,
            "number" => Self::Number,
            "integer" => Self::Integer,
            "boolean" => Self::Boolean,
            "list" => Self::List,
            "object" => Self::Object,
            _ => return None,
        })
    }
}
