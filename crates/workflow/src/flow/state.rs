//! A run as the sum of its records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bowline_model::workflow::{Breakpoint, NodeId};
use bowline_model::{JobId, JobStatus, RunError, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::debug::{Debug, HaltedBy};
use super::gather::Arrivals;
use super::mailbox::{Mailbox, Signal};
use super::pin;
use super::record::{Record, Step, StepStatus, Waiting};
use super::undo::{Deed, StoredDeed, StoredUndoing, Undoing};
use crate::expression::Context;
use crate::node::{Call, Ended, Exit, Shape};
use crate::program::{NodeIndex, Program, Way};

/// A run.
#[derive(Debug, Clone)]
pub struct Flow {
    pub(super) program: Arc<Program>,
    pub(super) context: Context,
    /// Steps that are over.
    pub(super) steps: u32,
    pub(super) opened: bool,
    /// How often each node was come to.
    pub(super) visits: Vec<u32>,
    /// Where the run is: at several nodes at once, if paths have parted.
    pub(super) tokens: Vec<Token>,
    pub(super) arrivals: BTreeMap<NodeIndex, Arrivals>,
    pub(super) debug: Debug,
    pub(super) mailbox: Mailbox,
    pub(super) canceling: bool,
    /// The error handler has taken over; a failure in it ends the run.
    pub(super) handling: bool,
    /// What a node said about the end of the run.
    pub(super) finishing: Option<Finishing>,
    pub(super) ending: Option<Ending>,
    /// Where it goes on when it is tried again.
    pub(super) broken: Vec<Broken>,
    pub(super) last: Option<NodeIndex>,
    /// What it did and can undo, the latest last.
    pub(super) deeds: Vec<Deed>,
    pub(super) undoing: Option<Undoing>,
    /// What names meant when people said yes to what follows, each with a digest; the latest yes counts.
    pub(super) approved: BTreeMap<String, String>,
}

/// A place where the run is.
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    pub node: NodeIndex,
    pub visit: u32,
    pub held: Option<Held>,
    /// Joins that have gone on without it.
    pub late: Late,
}

/// Joins that do not wait for a path any more.
pub type Late = BTreeSet<NodeIndex>;

/// A place where the run was when it ended badly.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Broken {
    pub node: NodeIndex,
    pub late: Late,
}

impl From<Token> for Broken {
    fn from(token: Token) -> Self {
        Self { node: token.node, late: token.late }
    }
}

/// What a token waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    pub wait: Waiting,
    pub began_at: Timestamp,
    /// Of several jobs: which run, and how those ended that did.
    pub running: BTreeMap<u32, JobId>,
    pub ended: BTreeMap<u32, Ended>,
    /// By when those that run must have ended, where that was said.
    pub due: BTreeMap<u32, Timestamp>,
    /// Calls that could not be made.
    pub refused: BTreeMap<u32, Refusals>,
}

/// How often a call could not be made.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Refusals {
    pub times: u32,
    /// When it is tried again, unless it was since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_at: Option<Timestamp>,
    /// The call itself, unless the wait has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Box<Call>>,
}

impl Held {
    fn new(wait: Waiting, began_at: Timestamp) -> Self {
        let jobs: &[JobId] = match &wait {
            Waiting::Call { job, .. } => std::slice::from_ref(job),
            Waiting::Each { launched, .. } => launched,
            _ => &[],
        };
        let running = (0..).zip(jobs.iter().copied()).collect();
        let due = match &wait {
            Waiting::Call { expires_at, .. } => expires_at.map(|at| (0, at)).into_iter().collect(),
            Waiting::Each { calls, .. } => {
                let begun = (0..).zip(calls).take(jobs.len());
                begun.filter_map(|(index, call)| Some((index, call.due_at(began_at)?))).collect()
            }
            _ => BTreeMap::new(),
        };
        Self { wait, began_at, running, ended: BTreeMap::new(), due, refused: BTreeMap::new() }
    }

    /// Whether no further call is made, because one has failed.
    pub(super) fn is_stopped(&self) -> bool {
        let stops = matches!(self.wait, Waiting::Each { stop_on_failure: true, .. });
        stops && self.ended.values().any(|ended| ended.status != JobStatus::Succeeded)
    }

    /// Calls that could not be made and are tried again, with the time.
    pub(super) fn refused(&self) -> impl Iterator<Item = (u32, Timestamp)> {
        let refused = self.refused.iter().filter(|_| !self.is_stopped());
        refused.filter_map(|(index, refusals)| Some((*index, refusals.again_at?)))
    }

    /// Calls that were made or refused.
    fn begun(&self) -> usize {
        let waiting = self.refused.values().filter(|refusals| refusals.again_at.is_some()).count();
        self.running.len() + self.ended.len() + waiting
    }

    /// A call that was refused, to be made again.
    pub(super) fn refused_call(&self, index: u32) -> Option<Call> {
        match &self.wait {
            Waiting::Each { calls, .. } => calls.get(index as usize).cloned(),
            _ => self.refused.get(&index)?.call.as_deref().cloned(),
        }
    }

    /// Moves what was reckoned from a time after this one. Of several calls, the later ones may be the only ones that were.
    /// How long a sleep lasts is said by itself: it may be until a moment that somebody named.
    fn move_times(&mut self, after: Timestamp, by_us: i64) {
        let is_later = self.began_at > after;
        if let Waiting::Each { calls, .. } = &self.wait {
            for (index, due) in &mut self.due {
                let deadline_ms = calls.get(*index as usize).and_then(|call| call.deadline_ms);
                let deadline_ms = deadline_ms.and_then(|millis| i64::try_from(millis).ok()).unwrap_or(0);
                if due.plus_millis(-deadline_ms) > after {
                    *due = due.plus_micros(by_us);
                }
            }
        } else if is_later {
            self.due.values_mut().for_each(|due| *due = due.plus_micros(by_us));
        }
        for again_at in self.refused.values_mut().filter_map(|refusals| refusals.again_at.as_mut()) {
            if *again_at > after {
                *again_at = again_at.plus_micros(by_us).max(after);
            }
        }
        if !is_later {
            return;
        }
        self.began_at = self.began_at.plus_micros(by_us);
        if let Waiting::Approval { expires_at: Some(at), .. }
        | Waiting::Event { expires_at: Some(at), .. }
        | Waiting::Call { expires_at: Some(at), .. } = &mut self.wait
        {
            *at = at.plus_micros(by_us);
        }
    }

    /// Calls that have not been made yet, from the next one on.
    pub(super) fn unmade(&self) -> &[Call] {
        let Waiting::Each { calls, .. } = &self.wait else { return &[] };
        calls.get(self.begun()..).unwrap_or_default()
    }
}

/// How the run is about to end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Finishing {
    Well { result: Value },
    Badly { error: RunError },
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    pub status: JobStatus,
    pub result: Value,
    pub error: Option<RunError>,
}

/// A run names a node that its definition does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the definition has no node {0:?}, where this run is")]
pub struct NotThere(pub String);

/// Why no other run can go on from here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotForked {
    #[error(transparent)]
    NotThere(#[from] NotThere),
    #[error("what is pinned at node {node:?} does not fit, and without it the node would be carried out: {what}")]
    Pin { node: String, what: String },
    #[error("by then the run was undoing what it had done; fork it from an earlier step")]
    Undoing,
}

impl Flow {
    /// A run that has not begun.
    pub fn new(program: Arc<Program>, context: Context) -> Self {
        let mut flow = Self {
            visits: vec![0; program.nodes.len()],
            program,
            context,
            steps: 0,
            opened: false,
            tokens: Vec::new(),
            arrivals: BTreeMap::new(),
            debug: Debug::default(),
            mailbox: Mailbox::default(),
            canceling: false,
            handling: false,
            finishing: None,
            ending: None,
            broken: Vec::new(),
            last: None,
            deeds: Vec::new(),
            undoing: None,
            approved: BTreeMap::new(),
        };
        flow.set_variables();
        flow
    }

    /// Sets the variables as they are when a run begins.
    pub(super) fn set_variables(&mut self) {
        for (name, value) in &self.program.variables {
            // The definition was checked; what cannot be a variable is not in it.
            let _ = self.context.set_variable(name, value.clone());
        }
    }

    /// It was started after people had said yes to what these names meant, each with a digest.
    pub fn follow_approval(&mut self, approved: BTreeMap<String, String>) {
        self.approved.extend(approved);
    }

    /// Stops after each node, from the first one on.
    pub fn step_by_step(&mut self) {
        self.debug.stepping = true;
    }

    /// Stops here, before anything begins, and after each node from then on. A run that has only to end still ends.
    pub fn stand_still(&mut self) {
        self.debug.stepping = true;
        if !self.opened || self.next_place().is_some() {
            self.debug.halted = Some(HaltedBy::Step);
        }
    }

    /// Stops where it is told, from the first node on.
    pub fn break_at(&mut self, points: impl IntoIterator<Item = Breakpoint>) {
        self.debug.breakpoints.extend(points.into_iter().map(|point| (point.node, point.when)));
    }

    /// Whether each step is little work; see [`Program::is_light`]. A condition of a breakpoint is compiled when it is asked for.
    pub fn is_light(&self) -> bool {
        self.program.is_light() && self.debug.breakpoints.values().all(Option::is_none)
    }

    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    pub fn context(&self) -> &Context {
        &self.context
    }

    pub fn context_mut(&mut self) -> &mut Context {
        &mut self.context
    }

    /// Steps that are over.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// Signals that it remembers and that no node has waited for yet: how many, and how many bytes.
    pub fn remembered(&self) -> (usize, usize) {
        (self.mailbox.len(), self.mailbox.bytes())
    }

    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// What names meant when people said yes to what follows, each with a digest.
    pub const fn approved(&self) -> &BTreeMap<String, String> {
        &self.approved
    }

    pub fn debug(&self) -> &Debug {
        &self.debug
    }

    /// Jobs that it waits for.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.tokens.iter().filter_map(|token| token.held.as_ref()).flat_map(|held| held.running.values().copied())
    }

    /// Where it is: node, visit, and what it waits for there, if it waits.
    pub fn places(&self) -> impl Iterator<Item = (&NodeId, u32, Option<&Waiting>)> {
        self.tokens
            .iter()
            .map(|token| (&self.program.nodes[token.node].id, token.visit, token.held.as_ref().map(|held| &held.wait)))
    }

    /// The node that would begin now, if nobody stopped it, and its visit. A join that has gathered is nowhere else to be seen.
    pub fn next(&self) -> Option<(&NodeId, u32)> {
        self.next_place().map(|(node, visit)| (&self.program.nodes[node].id, visit))
    }

    /// The node to name first when somebody asks where it is: the next one, if it stands still.
    pub fn stands_at(&self) -> Option<&NodeId> {
        let next = self.next().filter(|_| self.debug.halted.is_some()).map(|(node, _)| node);
        next.or_else(|| self.places().next().map(|(node, ..)| node))
    }

    /// When the next of a node's calls that could not be made is tried again.
    pub fn refused_until(&self, node: &NodeId, visit: u32) -> Option<Timestamp> {
        let held = self.tokens.iter().find(|token| self.is_at(token, node, visit))?.held.as_ref()?;
        held.refused().map(|(_, again_at)| again_at).min()
    }

    /// How the items of a `foreach` stand: how many run and how many have ended, of how many.
    pub fn items(&self, node: &NodeId, visit: u32) -> Option<(usize, usize, usize)> {
        let held = self.tokens.iter().find(|token| self.is_at(token, node, visit))?.held.as_ref()?;
        let Waiting::Each { calls, .. } = &held.wait else { return None };
        Some((held.running.len(), held.ended.len(), calls.len()))
    }

    /// The next moment at which something happens by itself.
    pub fn due_at(&self) -> Option<Timestamp> {
        let held = self.tokens.iter().filter_map(|token| token.held.as_ref());
        let times = held.flat_map(|held| {
            let own = held.wait.due_at().into_iter().chain(held.due.values().copied());
            own.chain(held.refused().map(|(_, again_at)| again_at))
        });
        times.min()
    }

    fn is_at(&self, token: &Token, node: &NodeId, visit: u32) -> bool {
        token.visit == visit && self.program.nodes[token.node].id == *node
    }

    /// The visit that would begin now, if nobody stopped it.
    pub(super) fn next_place(&self) -> Option<(NodeIndex, u32)> {
        let join = || self.next_join().map(|(node, _)| (node, self.visits[node] + 1));
        let token = || self.tokens.iter().find(|token| token.held.is_none()).map(|token| (token.node, token.visit));
        join().or_else(token)
    }

    pub(super) fn token(&self, node: &NodeId, visit: u32) -> Option<usize> {
        self.tokens.iter().position(|token| self.is_at(token, node, visit))
    }

    fn held_mut(&mut self, node: &NodeId, visit: u32) -> Option<&mut Held> {
        let place = self.token(node, visit)?;
        self.tokens[place].held.as_mut()
    }

    /// Adds one record. Whatever a record does not say changes nothing.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Opened { .. } => {
                self.opened = true;
                self.arrive(self.program.start, &Late::new());
            }
            Record::Step(step) => self.step(step),
            Record::Began { node, visit, at, wait } => {
                if let Some(place) = self.token(node, *visit) {
                    self.tokens[place].held = Some(Held::new(wait.clone(), *at));
                    self.debug.begun = self.debug.stepping;
                }
            }
            Record::Heard { node, visit, index, ended, launched, at } => {
                self.heard((node, *visit), *index, ended, launched, *at);
            }
            Record::Refused { node, visit, index, call, again_at } => {
                if let Some(held) = self.held_mut(node, *visit) {
                    held.running.remove(index);
                    let refusals = held.refused.entry(*index).or_default();
                    refusals.times += 1;
                    refusals.again_at = Some(*again_at);
                    refusals.call = call.clone().or(refusals.call.take());
                }
            }
            Record::Called { node, visit, index, job } => {
                if let Some(held) = self.held_mut(node, *visit) {
                    held.running.insert(*index, *job);
                    held.refused.entry(*index).or_default().again_at = None;
                }
            }
            Record::Signal { name, key, payload } => {
                self.mailbox.remember(Signal { name: Arc::clone(name), key: key.clone(), payload: payload.clone() });
            }
            Record::Halted { by, .. } => {
                self.debug.halted = Some(*by);
                self.debug.run_to = None;
            }
            Record::Steered { order, .. } => {
                for (name, value) in order.edits() {
                    // Checked before it was recorded.
                    let _ = self.context.set_variable(&name, value.clone());
                }
                let next = self.next_place().map(|(node, visit)| (self.program.nodes[node].id.clone(), visit));
                self.debug.obey(order, next);
            }
            Record::AskedAgain { .. } => {}
            Record::Approved { named, .. } => {
                self.approved.extend(named.iter().map(|(name, meaning)| (name.clone(), meaning.clone())));
            }
            Record::ClockMoved { after, by_us, sleeps } => {
                for token in &mut self.tokens {
                    if let Some(held) = &mut token.held {
                        held.move_times(*after, *by_us);
                    }
                }
                for (node, visit, until) in sleeps {
                    if let Some(place) = self.token(node, *visit)
                        && let Some(Held { wait: Waiting::Until(at), .. }) = &mut self.tokens[place].held
                    {
                        *at = *until;
                    }
                }
            }
            Record::Canceling { .. } => {
                self.canceling = true;
                let has_jobs = |token: &Token| token.held.as_ref().is_some_and(|held| !held.running.is_empty());
                let (stay, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.tokens).into_iter().partition(has_jobs);
                self.tokens = stay;
                // It may be tried again, and then it goes on where it was.
                self.broken.extend(left.into_iter().map(Broken::from));
            }
            Record::Undoing { error, .. } => self.begin_to_undo(error),
            Record::Retried { .. } => {
                (self.ending, self.finishing, self.canceling, self.handling) = (None, None, false, false);
                (self.debug.halted, self.debug.begun) = (None, false);
                if self.undoing.is_some() {
                    return self.undo_again();
                }
                for broken in std::mem::take(&mut self.broken) {
                    self.arrive(broken.node, &broken.late);
                }
            }
            Record::Closed { status, result, error, .. } => {
                let ending = Ending { status: *status, result: result.clone(), error: error.clone() };
                self.ending = Some(ending);
                self.finishing = None;
                let left = std::mem::take(&mut self.tokens);
                self.broken.extend(left.into_iter().map(Broken::from));
            }
        }
    }

    fn heard(
        &mut self,
        (node, visit): (&NodeId, u32),
        index: u32,
        ended: &Ended,
        launched: &[JobId],
        at: Option<Timestamp>,
    ) {
        let Some(held) = self.held_mut(node, visit) else { return };
        held.running.remove(&index);
        held.due.remove(&index);
        held.refused.remove(&index);
        held.ended.insert(index, ended.clone());
        let next = u32::try_from(held.begun()).unwrap_or(u32::MAX);
        if let (Waiting::Each { calls, .. }, Some(at)) = (&held.wait, at) {
            let begun = (next..).zip(calls.iter().skip(next as usize)).take(launched.len());
            held.due.extend(begun.filter_map(|(index, call)| Some((index, call.due_at(at)?))));
        }
        held.running.extend((next..).zip(launched.iter().copied()));
    }

    fn step(&mut self, step: &Step) {
        let Some(&at) = self.program.by_id.get(&step.node) else { return };
        let program = Arc::clone(&self.program);
        let late = match self.token(&step.node, step.visit) {
            Some(place) => {
                let token = self.tokens.remove(place);
                if let Some(Held { wait, .. }) = &token.held {
                    self.mailbox.take(wait);
                }
                token.late
            }
            // A join has no token while it gathers.
            None => {
                self.visits[at] = step.visit;
                self.gathered(at)
            }
        };
        if !self.debug.passed.is_empty() {
            self.debug.passed.remove(&(step.node.clone(), step.visit));
        }
        self.debug.begun = false;
        self.steps = step.n;
        self.last = Some(at);
        self.context.set_output(step.node.as_str(), step.output.clone());
        for (name, value) in &step.set {
            // Nodes check what they set.
            let _ = self.context.set_variable(name, value.clone());
        }
        if self.undoing.is_some() {
            return self.undid(step);
        }
        self.remember(at, step);
        let node = &program.nodes[at];
        let go = |flow: &mut Self, way: &Way| {
            let mut taken = false;
            for (_, target) in node.out.iter().filter(|(on, _)| on == way) {
                taken = true;
                flow.arrive(*target, &late);
                if node.node.shape() != Shape::Fork {
                    break;
                }
            }
            taken
        };
        match (&step.status, &step.exit) {
            (StepStatus::Failed, _) if self.canceling => self.broken.push(Broken { node: at, late }),
            (StepStatus::Failed, _) => {
                let error = step.error.clone().unwrap_or_else(|| {
                    RunError::new(bowline_model::ErrorClass::Permanent, "the node failed and did not say why")
                });
                // Whoever takes over, by an edge or as the handler of all errors, may want to know.
                let told = json!({"node": step.node, "class": error.class, "message": error.message});
                self.context.set_execution("error", told);
                if go(self, &Way::Failure) || go(self, &Way::Always) {
                    return;
                }
                match program.on_error.filter(|_| !self.handling) {
                    Some(handler) => {
                        self.handling = true;
                        self.arrive(handler, &late);
                    }
                    None => {
                        self.broken.push(Broken { node: at, late });
                        let message = format!("node {:?}: {}", step.node.as_str(), error.message);
                        let error = RunError::new(error.class, message);
                        self.finishing = Some(Finishing::Badly { error });
                    }
                }
            }
            (StepStatus::Success, Exit::End { failed: false }) => {
                self.finishing = Some(Finishing::Well { result: step.output.clone() });
            }
            (StepStatus::Success, Exit::End { failed: true }) => {
                self.broken.push(Broken { node: at, late });
                let message =
                    step.output.get("message").and_then(Value::as_str).unwrap_or("the workflow says it failed");
                let error = RunError::new(bowline_model::ErrorClass::Permanent, message);
                self.finishing = Some(Finishing::Badly { error });
            }
            (StepStatus::Success, Exit::To(target)) => match program.by_id.get(target) {
                Some(target) => self.arrive(*target, &late),
                None => {
                    self.broken.push(Broken { node: at, late });
                    let message =
                        format!("node {:?} goes on to {:?}, which there is not", step.node.as_str(), target.as_str());
                    let error = RunError::new(bowline_model::ErrorClass::Permanent, message);
                    self.finishing = Some(Finishing::Badly { error });
                }
            },
            (StepStatus::Success, Exit::Success) => {
                let _ = go(self, &Way::Success) || go(self, &Way::Always);
            }
            (StepStatus::Success, Exit::Port(port)) => {
                let _ = go(self, &Way::Port(Arc::clone(port))) || go(self, &Way::Always);
            }
        }
    }

    pub(super) fn arrive(&mut self, node: NodeIndex, late: &Late) {
        if let Shape::Join(_) = self.program.nodes[node].node.shape() {
            if !late.contains(&node) {
                self.arrivals.entry(node).or_insert_with(|| Arrivals { count: 0, late: late.clone() }).add(late);
            }
            return;
        }
        self.visits[node] += 1;
        self.tokens.push(Token { node, visit: self.visits[node], held: None, late: late.clone() });
    }

    /// Everything there is to know about it, to be stored.
    pub fn snapshot(&self) -> Snapshot {
        let id = |node: NodeIndex| self.program.nodes[node].id.clone();
        let ids = |late: &Late| late.iter().copied().map(id).collect();
        Snapshot {
            steps: self.steps,
            opened: self.opened,
            context: self.context.to_json(),
            visits: (0..).zip(&self.visits).filter(|(_, n)| **n > 0).map(|(node, n)| (id(node), *n)).collect(),
            tokens: self
                .tokens
                .iter()
                .map(|token| StoredToken {
                    node: id(token.node),
                    visit: token.visit,
                    held: token.held.as_ref().map(|held| StoredHeld {
                        wait: held.wait.clone(),
                        began_at: held.began_at,
                        running: held.running.clone(),
                        ended: held.ended.clone(),
                        due: held.due.clone(),
                        refused: held.refused.clone(),
                    }),
                    late: ids(&token.late),
                })
                .collect(),
            arrivals: self
                .arrivals
                .iter()
                .map(|(node, a)| (id(*node), StoredArrivals { count: a.count, fired: false, late: ids(&a.late) }))
                .collect(),
            debug: self.debug.clone(),
            mailbox: self.mailbox.signals().to_vec(),
            canceling: self.canceling,
            handling: self.handling,
            finishing: self.finishing.clone(),
            ending: self.ending.clone(),
            broken: self.broken.iter().map(|broken| id(broken.node)).collect(),
            broken_late: (0..)
                .zip(&self.broken)
                .filter(|(_, broken)| !broken.late.is_empty())
                .map(|(place, broken)| (place, ids(&broken.late)))
                .collect(),
            last: self.last.map(id),
            deeds: self.deeds.iter().map(|deed| deed.store(&self.program)).collect(),
            undoing: self.undoing.as_ref().map(|undoing| undoing.store(&self.program)),
            approved: self.approved.clone(),
        }
    }

    /// What a snapshot says, in a run of this program.
    pub fn restore(program: Arc<Program>, snapshot: Snapshot) -> Result<Self, NotThere> {
        let at = |node: &NodeId| program.by_id.get(node).copied().ok_or_else(|| NotThere(node.to_string()));
        let nothing = Context::new(Value::Null, Value::Null, json!({}));
        // A join that is gone waits for nobody.
        let late = |nodes: &[NodeId]| nodes.iter().filter_map(|node| at(node).ok()).collect::<Late>();
        let mut visits = vec![0; program.nodes.len()];
        for (node, count) in &snapshot.visits {
            // A node that is gone is not where the run is, so how often it was there is no longer of interest.
            if let Ok(node) = at(node) {
                visits[node] = *count;
            }
        }
        let tokens: Result<Vec<Token>, NotThere> = snapshot
            .tokens
            .into_iter()
            .map(|token| {
                let held = token.held.map(|held| Held {
                    wait: held.wait,
                    began_at: held.began_at,
                    running: held.running,
                    ended: held.ended,
                    due: held.due,
                    refused: held.refused,
                });
                Ok(Token { node: at(&token.node)?, visit: token.visit, held, late: late(&token.late) })
            })
            .collect();
        let (fired, gathering): (Vec<_>, Vec<_>) = snapshot.arrivals.iter().partition(|(_, a)| a.fired);
        let arrivals: Result<BTreeMap<NodeIndex, Arrivals>, NotThere> = gathering
            .into_iter()
            .map(|(node, a)| Ok((at(node)?, Arrivals { count: a.count, late: late(&a.late) })))
            .collect();
        let nobody = Vec::new();
        let broken: Result<Vec<Broken>, NotThere> = (0..)
            .zip(&snapshot.broken)
            .map(|(place, node)| {
                Ok(Broken { node: at(node)?, late: late(snapshot.broken_late.get(&place).unwrap_or(&nobody)) })
            })
            .collect();
        let fired = fired.into_iter().map(|(node, _)| at(node)).collect::<Result<Vec<_>, _>>()?;
        let mut flow = Self {
            context: Context::from_json(snapshot.context).unwrap_or(nothing),
            steps: snapshot.steps,
            opened: snapshot.opened,
            visits,
            tokens: tokens?,
            arrivals: arrivals?,
            debug: snapshot.debug,
            mailbox: Mailbox::of(snapshot.mailbox),
            canceling: snapshot.canceling,
            handling: snapshot.handling,
            finishing: snapshot.finishing,
            ending: snapshot.ending,
            broken: broken?,
            last: snapshot.last.as_ref().map(at).transpose()?,
            deeds: snapshot.deeds.into_iter().map(|deed| deed.restore(at)).collect::<Result<_, _>>()?,
            undoing: snapshot.undoing.map(|undoing| undoing.restore(at)).transpose()?,
            approved: snapshot.approved,
            program,
        };
        for join in fired {
            flow.leave_behind(join);
        }
        Ok(flow)
    }

    /// The same run as another one, from here on: whoever waited is entered again, what is pinned stays so, and nobody is
    /// stopped. A run that was about to end ends. What the first one did is not the other's to undo.
    pub fn fork(&self, program: Arc<Program>) -> Result<Self, NotForked> {
        if self.undoing.is_some() {
            return Err(NotForked::Undoing);
        }
        let mut snapshot = self.snapshot();
        snapshot.deeds.clear();
        snapshot.ending = None;
        snapshot.canceling = false;
        snapshot.debug = Debug { pins: pin::kept(&self.debug.pins, &program)?, ..Debug::default() };
        for token in &mut snapshot.tokens {
            token.held = None;
        }
        let mut fork = Self::restore(program, snapshot)?;
        if self.canceling {
            for broken in std::mem::take(&mut fork.broken) {
                fork.arrive(broken.node, &broken.late);
            }
        }
        Ok(fork)
    }
}

/// Everything there is to know about a run, to be stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Snapshot {
    steps: u32,
    opened: bool,
    context: Value,
    visits: BTreeMap<NodeId, u32>,
    tokens: Vec<StoredToken>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    arrivals: BTreeMap<NodeId, StoredArrivals>,
    #[serde(default, skip_serializing_if = "Debug::is_idle")]
    debug: Debug,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    mailbox: Vec<Signal>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    canceling: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    handling: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finishing: Option<Finishing>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ending: Option<Ending>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    broken: Vec<NodeId>,
    /// By the place in `broken`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    broken_late: BTreeMap<u32, Vec<NodeId>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    deeds: Vec<StoredDeed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    undoing: Option<StoredUndoing>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    approved: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredToken {
    node: NodeId,
    visit: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held: Option<StoredHeld>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    late: Vec<NodeId>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredArrivals {
    count: u32,
    /// How older snapshots say that it has gone on, and that those who still come are late.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    fired: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    late: Vec<NodeId>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredHeld {
    wait: Waiting,
    began_at: Timestamp,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    running: BTreeMap<u32, JobId>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    ended: BTreeMap<u32, Ended>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    due: BTreeMap<u32, Timestamp>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    refused: BTreeMap<u32, Refusals>,
}
