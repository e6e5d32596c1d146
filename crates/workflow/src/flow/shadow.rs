//! A run, once more, with the answers it got: what would be different?
//!
//! Nothing is called and nobody is asked. Where a node reaches beyond the context, its recorded step is taken; everything
//! else is worked out anew, by the definition that is given.

use std::collections::HashMap;
use std::sync::Arc;

use bowline_model::workflow::NodeId;
use bowline_model::{JobId, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::record::{Record, Step};
use super::state::Flow;
use super::turn::Turning;
use crate::expression::Context;
use crate::program::Program;

/// Where a run and its shadow part.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Difference {
    /// The same visit of the same node gives something else.
    Step { node: NodeId, visit: u32, recorded: Box<Outcome>, shadow: Box<Outcome> },
    /// The run came here, its shadow did not.
    OnlyRecorded { node: NodeId, visit: u32 },
    /// The shadow came here, the run did not.
    OnlyShadow { node: NodeId, visit: u32 },
    /// The shadow came to a node that asks the world, and there is no answer to take.
    NoAnswer { node: NodeId, visit: u32 },
    /// The run ended otherwise.
    Ending { recorded: Option<Value>, shadow: Option<Value> },
}

/// What came of a step, as far as it can differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    pub status: super::StepStatus,
    pub exit: crate::node::Exit,
    pub output: Value,
    pub set: Vec<(Arc<str>, Value)>,
}

impl Outcome {
    fn of(step: &Step) -> Self {
        Self { status: step.status, exit: step.exit.clone(), output: step.output.clone(), set: step.set.clone() }
    }
}

/// Runs a program with recorded answers, and says where it parts from what was recorded. `context` is what the run began
/// with.
pub fn shadow(program: Arc<Program>, context: Context, recorded: &[Record]) -> Vec<Difference> {
    let steps: HashMap<(&NodeId, u32), &Step> = recorded
        .iter()
        .filter_map(
            |record| if let Record::Step(step) = record { Some(((&step.node, step.visit), step)) } else { None },
        )
        .collect();
    let mut flow = Flow::new(Arc::clone(&program), context);
    let mut taken: Vec<Step> = Vec::new();
    let mut differences = Vec::new();
    let began = recorded.iter().find_map(|record| if let Record::Opened { at } = record { Some(*at) } else { None });
    let mut now = began.unwrap_or_default();
    let mut unanswered: Vec<(NodeId, u32)> = Vec::new();
    loop {
        let mut mint = || JobId::mint(Timestamp::default(), [0; 10]);
        let turn = flow.turn([], &mut Turning { now, mint: &mut mint, limit: 1_000 });
        let mut stuck = !turn.more;
        taken.extend(turn.records.into_iter().filter_map(|r| if let Record::Step(s) = r { Some(s) } else { None }));
        let waiting: Vec<(NodeId, u32)> = flow
            .places()
            .filter(|(_, _, wait)| wait.is_some())
            .map(|(node, visit, _)| (node.clone(), visit))
            .filter(|place| !unanswered.contains(place))
            .collect();
        for (node, visit) in waiting {
            match steps.get(&(&node, visit)) {
                Some(step) => {
                    now = now.max(step.ended_at);
                    let step = Step { n: flow.steps() + 1, ..(*step).clone() };
                    flow.apply(&Record::Step(step.clone()));
                    taken.push(step);
                    stuck = false;
                }
                None => {
                    differences.push(Difference::NoAnswer { node: node.clone(), visit });
                    unanswered.push((node, visit));
                }
            }
        }
        if stuck || flow.ending().is_some() {
            break;
        }
    }
    for step in &taken {
        let (node, visit) = (step.node.clone(), step.visit);
        match steps.get(&(&step.node, step.visit)) {
            None => differences.push(Difference::OnlyShadow { node, visit }),
            Some(before) if Outcome::of(before) != Outcome::of(step) => differences.push(Difference::Step {
                node,
                visit,
                recorded: Box::new(Outcome::of(before)),
                shadow: Box::new(Outcome::of(step)),
            }),
            Some(_) => {}
        }
    }
    for record in recorded {
        if let Record::Step(step) = record
            && !taken.iter().any(|t| t.node == step.node && t.visit == step.visit)
        {
            differences.push(Difference::OnlyRecorded { node: step.node.clone(), visit: step.visit });
        }
    }
    let recorded_end = recorded.iter().rev().find_map(|record| match record {
        Record::Closed { status, result, .. } => Some(serde_json::json!({"status": status, "result": result})),
        _ => None,
    });
    let shadow_end = flow.ending().map(|e| serde_json::json!({"status": e.status, "result": e.result}));
    if recorded_end != shadow_end {
        differences.push(Difference::Ending { recorded: recorded_end, shadow: shadow_end });
    }
    differences
}
