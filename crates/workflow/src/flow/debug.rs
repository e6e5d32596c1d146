//! Stopping a run, looking at it, changing it, and letting it go on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use bowline_model::workflow::Breakpoint;
use bowline_model::workflow::NodeId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::expression::{Context, ExpressionError, Scope, Template, check_variable_name};
use crate::program::Program;

/// What a person says to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// Stop before the next node.
    Pause,
    /// Go on, and stop again after one node.
    Step,
    /// Go on until a breakpoint.
    Continue,
    /// Go on until this node is next.
    RunTo(NodeId),
    Break(Breakpoint),
    Unbreak(NodeId),
    /// Set variables; `null` is a value like any other.
    Edit(Map<String, Value>),
    /// This is what the node gives from now on; it is not carried out.
    Pin {
        node: NodeId,
        output: Value,
    },
    Unpin(NodeId),
}

/// Why a run stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HaltedBy {
    /// It is stepped through.
    Step,
    Breakpoint,
    RunTo,
    /// Somebody asked for it.
    Person,
}

/// How a run is steered.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Debug {
    /// Stops after each node.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stepping: bool,
    /// The node of this step has begun and is not over yet. Nothing else begins meanwhile.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub begun: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halted: Option<HaltedBy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_to: Option<NodeId>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub breakpoints: BTreeMap<NodeId, Option<String>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pins: BTreeMap<NodeId, Value>,
    /// Visits that have stopped at their breakpoint already.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub passed: BTreeSet<(NodeId, u32)>,
}

impl Debug {
    pub(super) fn is_idle(&self) -> bool {
        *self == Self::default()
    }

    /// Whether nothing may begin, because what this step began is not over.
    pub(super) fn holds_back(&self) -> bool {
        self.stepping && self.begun
    }

    /// Why the run should stop before this visit of a node, if it should.
    pub(super) fn stops(&self, id: &NodeId, visit: u32, context: &Context) -> Option<HaltedBy> {
        if self.breakpoints.is_empty() && self.run_to.is_none() {
            return None;
        }
        if self.run_to.as_ref() == Some(id) {
            return Some(HaltedBy::RunTo);
        }
        let condition = self.breakpoints.get(id)?;
        if self.passed.contains(&(id.clone(), visit)) {
            return None;
        }
        let holds = condition.as_ref().is_none_or(|text| {
            // What cannot be judged is looked at by a person rather than passed over.
            Template::condition(text, Scope::workflow()).and_then(|when| when.holds(context)).unwrap_or(true)
        });
        holds.then_some(HaltedBy::Breakpoint)
    }

    /// What an order changes, apart from variables. `next` is the visit that would begin now.
    pub(super) fn obey(&mut self, order: &Order, next: Option<(NodeId, u32)>) {
        match order {
            Order::Pause => self.halted = Some(HaltedBy::Person),
            Order::Step | Order::Continue | Order::RunTo(_) => {
                self.stepping = matches!(order, Order::Step);
                self.run_to = if let Order::RunTo(node) = order { Some(node.clone()) } else { None };
                (self.halted, self.begun) = (None, false);
                self.passed.extend(next.filter(|(node, _)| self.breakpoints.contains_key(node)));
            }
            Order::Break(point) => drop(self.breakpoints.insert(point.node.clone(), point.when.clone())),
            Order::Unbreak(node) => drop(self.breakpoints.remove(node)),
            Order::Pin { node, output } => drop(self.pins.insert(node.clone(), output.clone())),
            Order::Unpin(node) => drop(self.pins.remove(node)),
            Order::Edit(_) => {}
        }
    }
}

impl Order {
    /// Whether it can be carried out in a run of this program; what is wrong with it otherwise.
    pub fn check(&self, program: &Program) -> Result<(), String> {
        let known = |node: &NodeId| {
            if program.by_id.contains_key(node) {
                Ok(())
            } else {
                Err(format!("the workflow has no node {:?}", node.as_str()))
            }
        };
        match self {
            Self::Pause | Self::Step | Self::Continue => Ok(()),
            Self::RunTo(node) | Self::Unbreak(node) | Self::Unpin(node) => known(node),
            Self::Pin { node, output } => {
                known(node)?;
                let fits = program.by_id.get(node).map(|at| program.nodes[*at].pinned(output));
                fits.transpose().map(drop).map_err(|what| format!("pin.output{what}"))
            }
            Self::Break(point) => {
                known(&point.node)?;
                let Some(when) = &point.when else { return Ok(()) };
                Template::condition(when, Scope::workflow()).map(drop).map_err(|e| format!("when: {e}"))
            }
            Self::Edit(variables) => {
                let tried: Result<(), ExpressionError> = variables.iter().try_for_each(|(name, value)| {
                    check_variable_name(name)?;
                    let nothing = || Value::Null;
                    Context::new(nothing(), nothing(), nothing()).set_variable(name, value.clone())
                });
                tried.map_err(|e| e.to_string())
            }
        }
    }

    /// Whether something else may happen because of it than without it. The other orders say when an execution stops, and
    /// never what it does.
    pub const fn changes_what_follows(&self) -> bool {
        match self {
            Self::Edit(_) | Self::Pin { .. } | Self::Unpin(_) => true,
            Self::Pause | Self::Step | Self::Continue | Self::RunTo(_) | Self::Break(_) | Self::Unbreak(_) => false,
        }
    }

    /// The variables it sets.
    pub(super) fn edits(&self) -> impl Iterator<Item = (Arc<str>, &Value)> {
        let variables = if let Self::Edit(variables) = self { Some(variables) } else { None };
        variables.into_iter().flatten().map(|(name, value)| (Arc::from(name.as_str()), value))
    }
}
