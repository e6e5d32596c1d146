//! What each step of an execution received, where it came from and where it led.
//!
//! None of this is stored: it follows from the definition and from the records, so it is worked out again for each reader.
//! Enters: an execution as it was at some point, and every record since, in order. Leaves: a [`StepDetail`] for each step that
//! was asked for. A node that was reached before that point is not known here; the caller then starts from the beginning.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use bowline_model::workflow::NodeId;
use serde_json::{Value, json};

use super::record::{Origin, Record, Step, Waiting};
use super::state::Flow;
use crate::node::{Call, CallWhat, Shape};
use crate::program::NodeIndex;

/// One visit of a node.
type Place = (NodeId, u32);

/// What is known of a step beyond its record.
#[derive(Debug, Clone, PartialEq)]
pub struct StepDetail {
    /// What the node received. `null` for a node that was not carried out, because its output is pinned.
    pub input: Value,
    /// The nodes that led here: one, or as many as a join gathered. None for the first node, and where an execution was
    /// retried or forked.
    pub previous: Vec<NodeId>,
    /// The nodes that it led to. None where the path ends.
    pub next: Vec<NodeId>,
}

/// Folds records, and tells the details of the steps among them.
#[derive(Debug)]
pub struct Details {
    flow: Flow,
    wanted: HashSet<Place>,
    /// Reached before the first record that is folded here.
    reached_before: HashSet<Place>,
    gathered_before: HashSet<NodeIndex>,
    /// What nodes received that wait now.
    inputs: HashMap<Place, Value>,
    previous: HashMap<Place, Vec<NodeId>>,
    gathering: HashMap<NodeIndex, Vec<NodeId>>,
}

impl Details {
    /// Of an execution that has just started: nothing was reached before.
    pub fn from_start(flow: Flow, wanted: impl IntoIterator<Item = (NodeId, u32)>) -> Self {
        Self {
            flow,
            wanted: wanted.into_iter().collect(),
            reached_before: HashSet::new(),
            gathered_before: HashSet::new(),
            inputs: HashMap::new(),
            previous: HashMap::new(),
            gathering: HashMap::new(),
        }
    }

    /// Of an execution as it was at some later point.
    pub fn from_here(flow: Flow, wanted: impl IntoIterator<Item = (NodeId, u32)>) -> Self {
        let reached_before = flow.places().map(|(node, visit, _)| (node.clone(), visit)).collect();
        let gathered_before = flow.arrivals.keys().copied().collect();
        Self { reached_before, gathered_before, ..Self::from_start(flow, wanted) }
    }

    /// Adds one record. For a step that was asked for, the answer has its number, and its details unless it was reached
    /// before the first record.
    pub fn apply(&mut self, record: &Record) -> Option<(u32, Option<StepDetail>)> {
        match record {
            Record::Began { node, visit, at, wait } => {
                let place = (node.clone(), *visit);
                if self.wanted.contains(&place) {
                    let input = match wait {
                        Waiting::Call { .. } => self.flow.would_call(node, *visit, *at).map(|call| handed_on(&call)),
                        other => Some(awaited(other)),
                    };
                    // A node that waits a second time for a job was entered once; a question can be asked again.
                    if let Some(input) = input {
                        self.inputs.insert(place, input);
                    }
                }
                self.flow.apply(record);
                None
            }
            Record::Step(step) => self.step(step, record),
            _ => {
                self.flow.apply(record);
                None
            }
        }
    }

    fn step(&mut self, step: &Step, record: &Record) -> Option<(u32, Option<StepDetail>)> {
        let Some(&at) = self.flow.program.by_id.get(&step.node) else {
            self.flow.apply(record);
            return None;
        };
        let place = (step.node.clone(), step.visit);
        let wanted = self.wanted.contains(&place);
        let is_join = matches!(self.flow.program.nodes[at].node.shape(), Shape::Join(_));
        let unknown = if is_join { self.gathered_before.remove(&at) } else { self.reached_before.contains(&place) };
        let input = (wanted && !unknown).then(|| self.input(at, step, &place));
        let previous = if is_join { self.gathering.remove(&at) } else { self.previous.remove(&place) };
        self.inputs.remove(&place);

        let kept = self.flow.tokens.len() - usize::from(self.flow.token(&step.node, step.visit).is_some());
        let gathered: HashMap<NodeIndex, u32> = self.flow.arrivals.iter().map(|(join, a)| (*join, a.count)).collect();
        self.flow.apply(record);

        let mut next = Vec::new();
        // What a step leads to comes last.
        for token in self.flow.tokens.iter().skip(kept) {
            let node = self.flow.program.nodes[token.node].id.clone();
            self.previous.insert((node.clone(), token.visit), vec![step.node.clone()]);
            next.push(node);
        }
        for (join, arrivals) in &self.flow.arrivals {
            let before = if is_join && *join == at { 0 } else { gathered.get(join).copied().unwrap_or(0) };
            for _ in before..arrivals.count {
                self.gathering.entry(*join).or_default().push(step.node.clone());
                next.push(self.flow.program.nodes[*join].id.clone());
            }
        }
        let detail = input.map(|input| StepDetail { input, previous: previous.unwrap_or_default(), next });
        wanted.then_some((step.n, detail))
    }

    fn input(&self, at: NodeIndex, step: &Step, place: &Place) -> Value {
        if step.origin == Origin::Pinned {
            return Value::Null;
        }
        if let Some(input) = self.inputs.get(place) {
            return input.clone();
        }
        let node = &self.flow.program.nodes[at].node;
        match node.shape() {
            Shape::Join(_) => json!({"arrived": step.output.get("arrived")}),
            Shape::Start => self.flow.context.webhook().get("payload").cloned().unwrap_or_default(),
            Shape::End | Shape::Plain | Shape::Fork => node.received(&self.flow.context),
        }
    }
}

/// What a node hands on to a job.
fn handed_on(call: &Call) -> Value {
    match &call.what {
        CallWhat::Task { payload, .. } => payload.clone(),
        CallWhat::Command(request) => request.clone(),
        CallWhat::Workflow { input, .. } => input.clone(),
        CallWhat::Blueprint { data, .. } => data.clone(),
    }
}

/// What a node waits for, in the words of its configuration.
fn awaited(wait: &Waiting) -> Value {
    match wait {
        Waiting::Until(at) => json!({"until": at}),
        Waiting::Approval { title, expires_at, rule } => {
            json!({"title": title, "expires_at": expires_at, "quorum": rule.quorum, "four_eyes": rule.four_eyes})
        }
        Waiting::Event { name, key, expires_at } => json!({"event": name, "key": key, "expires_at": expires_at}),
        Waiting::Call { .. } => Value::Null,
        Waiting::Each { calls, .. } => calls.iter().map(handed_on).collect(),
    }
}

impl Flow {
    /// The nodes that it never came to, in the order of the definition.
    pub fn unreached(&self) -> impl Iterator<Item = &NodeId> {
        let nodes = self.program.nodes.iter().zip(&self.visits);
        // A state of a blueprint is two nodes; the second is never reached without the first.
        nodes.filter(|(node, visits)| **visits == 0 && node.node_type != "state_act").map(|(node, _)| &node.id)
    }
}
