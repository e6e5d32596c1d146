//! The records of one run, read again by somebody who does not know how they came about.

use std::collections::{BTreeMap, BTreeSet};

use bowline_model::workflow::{NodeId, WorkflowSpec};
use bowline_model::{JobId, JobStatus, Timestamp};
use bowline_workflow::flow::{Order, Origin, Record, Step, StepStatus, Waiting, read_records};
use bowline_workflow::node::Exit;
use serde_json::{Map, Value};

use crate::oracle::Violation;

/// A visit of a node.
type Place = (NodeId, u32);

/// What a run knows: outputs and variables.
type Known = (BTreeMap<NodeId, Value>, Map<String, Value>);

/// A job that a run wished for.
#[derive(Debug, Clone)]
pub struct Launched {
    pub job: JobId,
    pub place: Place,
    /// Whether the wish was over in the turn in which it was made: then nobody began anything.
    pub at_once_over: bool,
}

/// What the records of a run add up to.
#[derive(Debug, Default)]
pub struct Story {
    pub steps: Vec<Step>,
    pub began: BTreeMap<Place, Waiting>,
    /// Somebody has changed what it knows.
    edited: bool,
    pub launched: Vec<Launched>,
    /// The letters that came, by the number in them, and those that a node was answered with.
    pub letters: BTreeMap<u64, u64>,
    pub heard: BTreeMap<u64, u64>,
    pub outputs: BTreeMap<NodeId, Value>,
    pub variables: Map<String, Value>,
    /// The outputs and variables after each step.
    pub after: BTreeMap<u32, Known>,
    pub ended: Option<(JobStatus, Value)>,
    pub retried: u64,
    pub retried_after_cancel: u64,
    pub halted: u64,
    pub early: u64,
    pub items: u64,
    /// Steps since it was tried again for the last time.
    pub since_retry: usize,
    pub undone: u64,
    pub not_undone: u64,
    pub begun_again: u64,
    remembers: bool,
    canceling: bool,
    /// What can be undone, the latest last: nodes whose names begin with `deed`.
    deeds: Vec<(NodeId, Value)>,
    /// While it undoes them: what could not be, the latest first.
    undoing: Option<Vec<(NodeId, Value)>>,
    /// The variables that it began with.
    initial: Map<String, Value>,
    over: BTreeSet<Place>,
    wrong: Vec<Violation>,
}

/// The number of the last step.
pub fn steps_in(turns: &[String]) -> u32 {
    let records = turns.iter().filter_map(|turn| read_records(turn).ok()).flatten();
    records.filter_map(|record| if let Record::Step(step) = record { Some(step.n) } else { None }).max().unwrap_or(0)
}

/// The number in the payload of a signal.
fn signal_in(payload: &Value) -> Option<u64> {
    payload.get("signal").and_then(Value::as_u64)
}

impl Story {
    /// Reads a run from its beginning, and says what cannot be.
    pub fn read(job: JobId, spec: Option<&WorkflowSpec>, turns: &[String]) -> (Self, Vec<Violation>) {
        Self::default().read_all(job, spec, turns)
    }

    /// The same, with what was known after each step.
    pub fn remember(job: JobId, spec: Option<&WorkflowSpec>, turns: &[String]) -> (Self, Vec<Violation>) {
        Self { remembers: true, ..Self::default() }.read_all(job, spec, turns)
    }

    fn read_all(self, job: JobId, spec: Option<&WorkflowSpec>, turns: &[String]) -> (Self, Vec<Violation>) {
        let mut story = self;
        story.variables = match spec {
            Some(spec) => spec.variables.clone(),
            None => Map::from_iter([("n".to_owned(), Value::from(0))]),
        };
        story.initial = story.variables.clone();
        for turn in turns {
            match read_records(turn) {
                Ok(records) => {
                    for (place, record) in records.iter().enumerate() {
                        story.add(record, &records[place + 1..], spec);
                    }
                }
                Err(error) => story.blame("C6", format!("a turn cannot be read: {error}")),
            }
        }
        let mut wrong = std::mem::take(&mut story.wrong);
        for violation in &mut wrong {
            violation.text = format!("run {job}: {}", violation.text);
        }
        (story, wrong)
    }

    fn blame(&mut self, promise: &'static str, text: String) {
        self.wrong.push(Violation::new(promise, text));
    }

    fn add(&mut self, record: &Record, rest: &[Record], spec: Option<&WorkflowSpec>) {
        if self.ended.is_some() && !matches!(record, Record::Retried { .. }) {
            self.blame("W1", format!("it was over, and yet there is {record:?}"));
        }
        match record {
            Record::Opened { .. } | Record::Approved { .. } | Record::ClockMoved { .. } | Record::Refused { .. } => {}
            // Somebody stored another version of what is named behind a question.
            Record::AskedAgain { .. } => self.edited = true,
            Record::Called { node, visit, job, .. } => self.launch(&(node.clone(), *visit), &[*job], rest),
            Record::Step(step) => self.step(step, spec),
            Record::Began { node, visit, wait, .. } => {
                let place = (node.clone(), *visit);
                let jobs = match wait {
                    Waiting::Call { job, .. } => std::slice::from_ref(job),
                    Waiting::Each { launched, .. } => launched,
                    _ => &[],
                };
                self.launch(&place, jobs, rest);
                let asked = |wait: &Waiting| matches!(wait, Waiting::Approval { .. });
                // A question is put again when somebody has changed what follows from it.
                let again = self.edited && asked(wait);
                let before = self.began.insert(place, wait.clone());
                if before.is_some_and(|before| !(again && asked(&before))) {
                    self.blame("W1", format!("visit {visit} of {node} began twice"));
                }
            }
            Record::Heard { node, visit, launched, .. } => {
                self.items += 1;
                self.launch(&(node.clone(), *visit), launched, rest);
            }
            Record::Signal { payload, .. } => {
                if let Some(signal) = signal_in(payload) {
                    *self.letters.entry(signal).or_default() += 1;
                }
                let answered = |later: &Record| matches!(later, Record::Step(step) if step.output == *payload);
                self.early += u64::from(!rest.iter().any(answered));
            }
            Record::Halted { .. } => self.halted += 1,
            Record::Steered { order, .. } => {
                if let Order::Edit(variables) = order {
                    self.edited = true;
                    self.variables.extend(variables.clone());
                }
            }
            Record::Canceling { .. } => self.canceling = true,
            Record::Retried { .. } => {
                match self.ended.take() {
                    None => self.blame("W1", "it was tried again before it was over".to_owned()),
                    Some((JobStatus::Succeeded, _)) => self.blame("W1", "it had succeeded and goes on".to_owned()),
                    Some((status, _)) => {
                        self.retried += 1;
                        self.retried_after_cancel += u64::from(status == JobStatus::Canceled);
                    }
                }
                self.canceling = false;
                self.since_retry = self.steps.len();
                self.tried_again();
            }
            Record::Undoing { .. } => {
                if self.deeds.is_empty() || self.undoing.replace(Vec::new()).is_some() {
                    self.blame("W6", "there is nothing to undo".to_owned());
                }
                self.go_back();
            }
            Record::Closed { status, result, .. } => {
                if *status == JobStatus::Failed && !self.deeds.is_empty() {
                    self.blame("W6", format!("it failed, and {:?} was not undone", self.deeds.last()));
                }
                self.ended = Some((*status, result.clone()));
            }
        }
    }

    fn launch(&mut self, place: &Place, jobs: &[JobId], rest: &[Record]) {
        let at_once_over = rest.iter().any(|later| match later {
            Record::Step(Step { node, visit, .. })
            | Record::Heard { node, visit, .. }
            | Record::Refused { node, visit, .. } => (node, visit) == (&place.0, &place.1),
            Record::Canceling { .. } | Record::Undoing { .. } | Record::Closed { .. } => true,
            _ => false,
        });
        self.launched.extend(jobs.iter().map(|job| Launched { job: *job, place: place.clone(), at_once_over }));
    }

    fn step(&mut self, step: &Step, spec: Option<&WorkflowSpec>) {
        let (n, node, visit) = (step.n, &step.node, step.visit);
        let place = (node.clone(), visit);
        if self.steps.last().is_some_and(|last| last.n + 1 != n) {
            self.blame("W3", format!("step {n} follows step {}", self.steps.last().map_or(0, |last| last.n)));
        }
        if !self.over.insert(place.clone()) {
            self.blame("W1", format!("visit {visit} of {node} has two results"));
        }
        if self.canceling && step.status == StepStatus::Success {
            self.blame("W2", format!("step {n} at {node} succeeded although the run is being canceled"));
        }
        if let Some(Waiting::Until(until)) = self.began.get(&place)
            && step.ended_at < *until
        {
            self.blame("W5", format!("{node} slept until {}, not until {until}", step.ended_at));
        }
        if self.undoing.is_some() || node.as_str().starts_with("undo_") {
            self.undoes(step);
        } else if let Some(spec) = spec {
            self.was_enabled(step, spec);
        }
        if let Some(signal) = signal_in(&step.output) {
            let heard = self.heard.entry(signal).or_default();
            *heard += 1;
            let (heard, came) = (*heard, self.letters.get(&signal).copied().unwrap_or(0));
            // A fork may have been told by the run that it goes on from.
            let forked = self.steps.first().map_or(n, |first| first.n) > 1;
            if heard > came && !forked {
                self.blame("W1", format!("signal {signal} came {came} times and was heard {heard} times"));
            }
        }
        self.outputs.insert(node.clone(), step.output.clone());
        for (name, value) in &step.set {
            self.variables.insert(name.to_string(), value.clone());
        }
        let did = step.status == StepStatus::Success && step.origin == Origin::Own;
        if self.undoing.is_some() {
            self.go_back();
        } else if did && node.as_str().starts_with("deed_") {
            self.deeds.push((node.clone(), step.output.clone()));
        }
        if self.remembers {
            self.after.insert(n, (self.outputs.clone(), self.variables.clone()));
        }
        self.steps.push(step.clone());
    }

    /// W6: what was done is undone in the reverse order, once, and only when the run fails.
    fn undoes(&mut self, step: &Step) {
        let latest = self.deeds.last().map(|(deed, _)| deed.as_str().replacen("deed_", "undo_", 1));
        if self.undoing.is_none() || latest.as_deref() != Some(step.node.as_str()) {
            self.blame("W6", format!("step {} is {}, and what there is to undo wants {latest:?}", step.n, step.node));
        }
        if self.canceling {
            return;
        }
        let failed = step.status == StepStatus::Failed;
        if let (Some(deed), Some(left)) = (self.deeds.pop(), &mut self.undoing) {
            self.undone += u64::from(!failed);
            self.not_undone += u64::from(failed);
            left.extend(failed.then_some(deed));
        }
    }

    /// What is undone next is known as it was then.
    fn go_back(&mut self) {
        if let Some((node, output)) = self.deeds.last() {
            self.outputs.insert(node.clone(), output.clone());
        }
    }

    /// A run that has something left to undo goes on with that; one of which nothing is left begins again.
    fn tried_again(&mut self) {
        let Some(mut left) = self.undoing.take() else { return };
        left.reverse();
        self.deeds.extend(left);
        if self.deeds.is_empty() {
            self.begun_again += 1;
            self.outputs.clear();
            self.variables.clone_from(&self.initial);
        } else {
            self.undoing = Some(Vec::new());
            self.go_back();
        }
    }

    /// W2: a node is only come to by an edge of a step before it, by a failure that has a handler, or at the beginning.
    fn was_enabled(&mut self, step: &Step, spec: &WorkflowSpec) {
        if self.steps.len() as u64 >= u64::from(spec.max_steps) {
            self.blame("W4", format!("step {} is more than its workflow allows", step.n));
        }
        let leads = |before: &Step| {
            let by_edge = spec.edges.iter().any(|edge| {
                edge.source == before.node && edge.target == step.node && {
                    let on = match (&before.status, &before.exit) {
                        (StepStatus::Failed, _) => "failure",
                        (_, Exit::Port(port)) => port,
                        _ => "success",
                    };
                    edge.on == on || edge.on == "always"
                }
            });
            by_edge || (before.status == StepStatus::Failed && spec.on_error.as_ref() == Some(&step.node))
        };
        let begins = step.node.as_str() == "start" && u64::from(step.visit) == self.begun_again + 1;
        if !begins && !self.steps.iter().any(leads) && self.steps.first().is_some_and(|first| first.n == 1) {
            self.blame("W2", format!("nothing led to step {} at {}", step.n, step.node));
        }
    }

    /// W5: nobody who sleeps is awake before it is time, by the true clock.
    pub fn slept_enough(&self, job: JobId, now: Timestamp, clock_ms: i64) -> Option<Violation> {
        let early = self.began.iter().find(|(place, wait)| {
            let Waiting::Until(until) = wait else { return false };
            self.over.contains(*place) && now.plus_millis(clock_ms) < *until
        });
        early.map(|((node, _), wait)| {
            Violation::new("W5", format!("run {job}: {node} is awake at {now}, before {wait:?}"))
        })
    }
}
