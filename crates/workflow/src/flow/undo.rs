//! Undoing what a run did, when it fails after all.
//!
//! A node may name another one that undoes what it did. What such nodes did and ended well is remembered as *deeds*. A run that is
//! about to fail first undoes them, the latest first, one after the other; then it fails, with the error that it would have failed
//! with. What cannot be undone does not keep the rest from it. Tried again, a run goes on undoing; and if nothing of it is left, it
//! begins again.

use bowline_model::RunError;
use bowline_model::planted::{self, Mistake};
use bowline_model::workflow::NodeId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::record::{Origin, Step, StepStatus};
use super::state::{Finishing, Flow, Late};
use crate::program::{NodeIndex, Program};

/// What a node did, and another one can undo.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Deed {
    pub node: NodeIndex,
    pub visit: u32,
    pub output: Value,
}

/// A run that undoes what it did.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Undoing {
    /// Why.
    pub error: RunError,
    /// What could not be undone, the latest first.
    pub left: Vec<Deed>,
}

impl Flow {
    /// Whether there is something to undo before the run can fail.
    pub(super) fn has_to_undo(&self) -> bool {
        !self.canceling && self.undoing.is_none() && !self.deeds.is_empty()
    }

    /// Remembers what a node did. What was only said to be its output was not done.
    pub(super) fn remember(&mut self, node: NodeIndex, step: &Step) {
        let did_it = step.status == StepStatus::Success && step.origin == Origin::Own;
        if did_it && self.program.nodes[node].undo.is_some() {
            self.deeds.push(Deed { node, visit: step.visit, output: step.output.clone() });
        }
    }

    /// Leaves everything where it is, and goes back.
    pub(super) fn begin_to_undo(&mut self, error: &RunError) {
        self.finishing = None;
        self.tokens.clear();
        self.arrivals.clear();
        self.broken.clear();
        if planted::on(Mistake::UndoneForwards) {
            self.deeds.reverse();
        }
        self.undoing = Some(Undoing { error: error.clone(), left: Vec::new() });
        self.undo_next();
    }

    /// A node that undoes something is over.
    pub(super) fn undid(&mut self, step: &Step) {
        // Somebody stopped it; if it is tried again, so is this.
        if self.canceling {
            return;
        }
        if let (Some(undoing), Some(deed)) = (&mut self.undoing, self.deeds.pop())
            && step.status == StepStatus::Failed
        {
            undoing.left.push(deed);
        }
        self.undo_next();
    }

    /// Goes to the node that undoes the latest deed. It knows what was known of that deed then, also if its node did more of them.
    fn undo_next(&mut self) {
        let Some(undoing) = &self.undoing else { return };
        let Some(deed) = self.deeds.last() else {
            self.finishing = Some(Finishing::Badly { error: undoing.told(&self.program) });
            return;
        };
        let node = &self.program.nodes[deed.node];
        let Some(undo) = node.undo else { return };
        self.context.set_output(node.id.as_str(), deed.output.clone());
        self.context.set_execution("undoing", json!({"node": node.id, "visit": deed.visit}));
        self.arrive(undo, &Late::new());
    }

    /// It was undone, wholly or in part, and is tried again.
    pub(super) fn undo_again(&mut self) {
        let Some(undoing) = &mut self.undoing else { return };
        self.deeds.extend(undoing.left.drain(..).rev());
        self.tokens.clear();
        self.broken.clear();
        if self.deeds.is_empty() {
            self.undoing = None;
            self.last = None;
            self.context = self.context.afresh();
            self.set_variables();
            self.arrive(self.program.start, &Late::new());
        } else {
            self.undo_next();
        }
    }
}

impl Undoing {
    /// The error that the run ends with.
    fn told(&self, program: &Program) -> RunError {
        if self.left.is_empty() {
            return self.error.clone();
        }
        let names: Vec<_> =
            self.left.iter().map(|deed| format!("{:?}", program.nodes[deed.node].id.as_str())).collect();
        let message = format!("{}; could not be undone: {}", self.error.message, names.join(", "));
        RunError::new(self.error.class, message)
    }
}

/// A deed, as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredDeed {
    node: NodeId,
    visit: u32,
    output: Value,
}

/// The same of what is being undone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredUndoing {
    error: RunError,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left: Vec<StoredDeed>,
}

impl Deed {
    pub(super) fn store(&self, program: &Program) -> StoredDeed {
        StoredDeed { node: program.nodes[self.node].id.clone(), visit: self.visit, output: self.output.clone() }
    }
}

impl StoredDeed {
    pub(super) fn restore<E>(self, at: impl Fn(&NodeId) -> Result<NodeIndex, E>) -> Result<Deed, E> {
        Ok(Deed { node: at(&self.node)?, visit: self.visit, output: self.output })
    }
}

impl Undoing {
    pub(super) fn store(&self, program: &Program) -> StoredUndoing {
        StoredUndoing { error: self.error.clone(), left: self.left.iter().map(|deed| deed.store(program)).collect() }
    }
}

impl StoredUndoing {
    pub(super) fn restore<E>(self, at: impl Fn(&NodeId) -> Result<NodeIndex, E>) -> Result<Undoing, E> {
        let left = self.left.into_iter().map(|deed| deed.restore(&at)).collect::<Result<_, E>>()?;
        Ok(Undoing { error: self.error, left })
    }
}
