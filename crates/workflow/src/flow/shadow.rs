//! A run, once more, with the answers it got: what would be different?
//!
//! Nothing is called and nobody is asked. Where a node reaches beyond the context, its recorded step is taken, and what people
//! changed is changed again; everything else is worked out anew, by the definition that is given.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bowline_model::workflow::NodeId;
use bowline_model::{JobId, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

use super::debug::Order;
use super::record::{Record, Step, Waiting};
use super::state::Flow;
use super::turn::{Launch, Turning};
use crate::expression::Context;
use crate::node::{Call, Next, Visit, Wait};
use crate::program::Program;

/// Steps that a shadow may take beyond those of the run. Whoever goes on for longer is another run altogether.
const STEPS_MORE: usize = 1_000;
/// Differences that are listed, and how long they may be together; the others are counted.
const LISTED_MAX: usize = 1_000;
const LISTED_BYTES_MAX: usize = 4 << 20;
/// Steps between two looks at whether it may go on.
const LOOK_AFTER_STEPS: u32 = 25;

/// Where a run and its shadow part.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Difference {
    /// The same visit of the same node gives something else.
    Step { node: NodeId, visit: u32, recorded: Box<Outcome>, shadow: Box<Outcome> },
    /// The same visit of the same node asks the world for something else. The answer that was taken is the one to what was asked
    /// then.
    Asks { node: NodeId, visit: u32, recorded: Vec<Call>, shadow: Vec<Call> },
    /// The run came here, its shadow did not.
    OnlyRecorded { node: NodeId, visit: u32 },
    /// The shadow came here, the run did not.
    OnlyShadow { node: NodeId, visit: u32 },
    /// The shadow came to a node that asks the world, and there is no answer to take.
    NoAnswer { node: NodeId, visit: u32 },
    /// The shadow was not over after so many steps, many more than the run had, and was left there.
    GoesOn { steps: u32 },
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

/// Where a run and its shadow part: the first differences, and how many there are besides.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Differences {
    pub listed: Vec<Difference>,
    pub unlisted: usize,
    #[serde(skip)]
    bytes: usize,
}

impl Differences {
    fn add(&mut self, difference: Difference) {
        if self.listed.len() < LISTED_MAX && self.bytes < LISTED_BYTES_MAX {
            self.bytes += serde_json::to_vec(&difference).map_or(0, |text| text.len());
            self.listed.push(difference);
        } else {
            self.unlisted += 1;
        }
    }
}

/// Whoever waited for it waits no more, or it has taken too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivenUp;

/// What a run was, to be compared with.
#[derive(Debug)]
pub struct Recorded<'a> {
    /// What it was carried out by.
    pub program: &'a Arc<Program>,
    /// What it began with.
    pub context: &'a Context,
    pub records: &'a [Record],
}

type Place = (NodeId, u32);

/// Runs a program with recorded answers, and says where it parts from what was recorded. `may_go_on` is asked now and then.
pub fn shadow(
    program: &Arc<Program>,
    recorded: &Recorded<'_>,
    may_go_on: &mut dyn FnMut() -> bool,
) -> Result<Differences, GivenUp> {
    let steps: HashMap<(&NodeId, u32), &Step> =
        recorded.records.iter().filter_map(Record::as_step).map(|step| ((&step.node, step.visit), step)).collect();
    let asked = if Arc::ptr_eq(program, recorded.program) { HashMap::new() } else { recorded.asked() };
    let said = recorded.said();
    let mut differences = Differences::default();
    let mut flow = Flow::new(Arc::clone(program), recorded.context.clone());
    let mut came: HashSet<Place> = HashSet::new();
    let mut unanswered: HashSet<Place> = HashSet::new();
    let opened = recorded.records.iter().find_map(|r| if let Record::Opened { at } = r { Some(*at) } else { None });
    let mut now = opened.unwrap_or_default();
    for order in said.get(&None).into_iter().flatten() {
        flow.apply(order);
    }
    loop {
        if !may_go_on() {
            return Err(GivenUp);
        }
        let mut mint = || JobId::mint(Timestamp::default(), [0; 10]);
        // What people said after a step must be heard before the next one.
        let limit = if said.is_empty() { LOOK_AFTER_STEPS } else { 1 };
        let turn = flow.turn([], &mut Turning { now, expires: true, mint: &mut mint, limit, work: u32::MAX });
        let mut stuck = !turn.more;
        let mut taken: Vec<Step> = turn.records.iter().filter_map(Record::as_step).cloned().collect();
        if !asked.is_empty() {
            for (place, asks) in asks(&turn.records, &turn.launches) {
                match asked.get(&place) {
                    Some(before) if *before != asks => differences.add(Difference::Asks {
                        node: place.0,
                        visit: place.1,
                        recorded: before.clone(),
                        shadow: asks,
                    }),
                    _ => {}
                }
            }
        }
        let waiting: Vec<Place> = flow
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
                    differences.add(Difference::NoAnswer { node: node.clone(), visit });
                    unanswered.insert((node, visit));
                }
            }
        }
        for step in taken {
            let place = (step.node.clone(), step.visit);
            match steps.get(&(&step.node, step.visit)) {
                None => differences.add(Difference::OnlyShadow { node: step.node, visit: step.visit }),
                Some(before) if Outcome::of(before) != Outcome::of(&step) => differences.add(Difference::Step {
                    recorded: Box::new(Outcome::of(before)),
                    shadow: Box::new(Outcome::of(&step)),
                    node: step.node,
                    visit: step.visit,
                }),
                Some(_) => {}
            }
            let place = Some(place);
            for order in said.get(&place).into_iter().flatten() {
                flow.apply(order);
            }
            came.extend(place);
        }
        if stuck || flow.ending().is_some() {
            break;
        }
        if flow.steps() as usize > steps.len() + STEPS_MORE {
            differences.add(Difference::GoesOn { steps: flow.steps() });
            return Ok(differences);
        }
    }
    for step in recorded.records.iter().filter_map(Record::as_step) {
        if !came.contains(&(step.node.clone(), step.visit)) {
            differences.add(Difference::OnlyRecorded { node: step.node.clone(), visit: step.visit });
        }
    }
    let recorded_end = recorded.records.iter().rev().find_map(|record| match record {
        Record::Closed { status, result, .. } => Some(json!({"status": status, "result": result})),
        _ => None,
    });
    let shadow_end = flow.ending().map(|e| json!({"status": e.status, "result": e.result}));
    if recorded_end != shadow_end {
        differences.add(Difference::Ending { recorded: recorded_end, shadow: shadow_end });
    }
    Ok(differences)
}

impl Recorded<'_> {
    /// What each node asked the world for. A run does not record that, but it follows from what it knew then.
    fn asked(&self) -> HashMap<Place, Vec<Call>> {
        let mut flow = Flow::new(Arc::clone(self.program), self.context.clone());
        let mut asked = HashMap::new();
        for record in self.records {
            if let Record::Began { node, visit, at, wait } = record {
                let calls = match wait {
                    Waiting::Each { calls, .. } => calls.clone(),
                    Waiting::Call { .. } => flow.would_call(node, *visit, *at).into_iter().collect(),
                    Waiting::Until(_) | Waiting::Approval { .. } | Waiting::Event { .. } => Vec::new(),
                };
                // What a node asks for after its first answer is not compared.
                if !calls.is_empty() {
                    asked.entry((node.clone(), *visit)).or_insert(calls);
                }
            }
            flow.apply(record);
        }
        asked
    }

    /// The changes that people made, by the step after which they were made.
    fn said(&self) -> HashMap<Option<Place>, Vec<&Record>> {
        let mut said: HashMap<Option<Place>, Vec<&Record>> = HashMap::new();
        let mut after = None;
        for record in self.records {
            match record {
                Record::Step(step) => after = Some((step.node.clone(), step.visit)),
                Record::Steered { order: Order::Edit(_) | Order::Pin { .. } | Order::Unpin(_), .. } => {
                    said.entry(after.clone()).or_default().push(record);
                }
                _ => {}
            }
        }
        said
    }
}

impl Flow {
    /// The job that a node begins when it is come to.
    pub(super) fn would_call(&self, node: &NodeId, visit: u32, now: Timestamp) -> Option<Call> {
        let token = &self.tokens[self.token(node, visit)?];
        if token.held.is_some() {
            return None;
        }
        let own = &self.program.nodes[token.node];
        let context = self.context.for_visit();
        let visiting = Visit { context: &context, now, number: visit, policy: &own.policy };
        match own.node.enter(visiting) {
            Ok(Next::Wait(Wait::Call(call))) => Some(*call),
            _ => None,
        }
    }
}

/// What the nodes that began to wait in this turn ask for.
fn asks(records: &[Record], launches: &[Launch]) -> Vec<(Place, Vec<Call>)> {
    let began = records.iter().filter_map(|record| match record {
        Record::Began { node, visit, wait, .. } => Some((node, *visit, wait)),
        _ => None,
    });
    let asks = began.map(|(node, visit, wait)| {
        let calls = match wait {
            Waiting::Each { calls, .. } => calls.clone(),
            _ => {
                let own = launches.iter().filter(|launch| launch.node == *node && launch.visit == visit);
                own.map(|launch| launch.call.clone()).collect()
            }
        };
        ((node.clone(), visit), calls)
    });
    asks.filter(|(_, calls)| !calls.is_empty()).collect()
}
