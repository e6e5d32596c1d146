//! Outputs that somebody has written in place of a node's own: whether they fit, and where they lead.
//!
//! A pin that leads nowhere would end a run as if all were well. So it is looked at when it is said, by the rules of its
//! node; and once more when a run goes on with another definition, where the node may be another one.

use std::collections::BTreeMap;

use bowline_model::workflow::NodeId;
use serde_json::Value;

use super::state::NotForked;
use crate::expression::Context;
use crate::node::{Done, Exit, Ports};
use crate::program::{Program, ProgramNode, Way};

impl ProgramNode {
    /// What comes of it if this is its output. Otherwise what is wrong, beginning with the place in the output.
    pub(super) fn pinned(&self, output: &Value) -> Result<Done, String> {
        let done = self.node.pinned(output)?;
        let mut nothing = Context::new(Value::Null, Value::Null, Value::Null);
        for (name, value) in &done.set {
            nothing.set_variable(name, value.clone()).map_err(|error| format!(": {name}: {}", error.message()))?;
        }
        // Whoever can succeed fails where a way has no edge; the others end their path there, as they do without a pin.
        if let (Exit::Port(port), Ports::Named(names)) = (&done.exit, self.node.ports())
            && names.iter().any(|name| **name == *"success")
            && !self.out.iter().any(|(way, _)| *way == Way::Always || *way == Way::Port(port.clone()))
        {
            return Err(format!(": this leads on by `{port}`, and no such edge leaves the node"));
        }
        Ok(done)
    }
}

/// The pins of a run that another one keeps, which goes on with this program.
///
/// An approval is asked for again: whoever said yes said it of the first run. What only calculates is calculated if its pin
/// does not fit any more. What would do something is not done because of that: there the fork is refused.
pub(super) fn kept(pins: &BTreeMap<NodeId, Value>, program: &Program) -> Result<BTreeMap<NodeId, Value>, NotForked> {
    let mut kept = BTreeMap::new();
    for (id, output) in pins {
        let Some(node) = program.by_id.get(id).map(|at| &program.nodes[*at]) else { continue };
        if node.node.asks_people() {
            continue;
        }
        match node.pinned(output) {
            Ok(_) => drop(kept.insert(id.clone(), output.clone())),
            Err(what) if node.node.has_effect() => {
                return Err(NotForked::Pin { node: id.to_string(), what: format!("output{what}") });
            }
            Err(_) => {}
        }
    }
    Ok(kept)
}
