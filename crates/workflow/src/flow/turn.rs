//! One turn: what came in is heard, and the run goes on as far as it can.

use std::sync::Arc;

use bowline_model::workflow::NodeId;
use bowline_model::{ErrorClass, JobId, JobStatus, RunError, Timestamp};
use serde_json::{Map, Value, json};

use super::debug::HaltedBy;
use super::gather::Gathered;
use super::message::Message;
use super::record::{Origin, Record, Step, StepStatus, Waiting};
use super::state::{Finishing, Flow, Held};
use crate::node::{Answer, Call, Done, Ended, Exit, Failed, Next, Visit, Wait};
use crate::program::NodeIndex;

/// What a turn may use.
pub struct Turning<'a> {
    pub now: Timestamp,
    /// Whether waits for people, events and jobs end by time. They do not while the clock is held: only sleeps go on.
    pub expires: bool,
    /// Makes the ids of jobs. They are recorded with the intent, so that whoever repeats it names the same job.
    pub mint: &'a mut dyn FnMut() -> JobId,
    /// Steps that one turn takes at most.
    pub limit: u32,
    /// Steps of expressions after which a turn goes no further. The visit that exceeds them is completed.
    pub work: u32,
}

impl std::fmt::Debug for Turning<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turning")
            .field("now", &self.now)
            .field("expires", &self.expires)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// What came of a turn. All of it is stored together, or none of it.
#[derive(Debug, Default)]
pub struct Turn {
    pub records: Vec<Record>,
    /// Jobs to begin.
    pub launches: Vec<Launch>,
    /// Jobs that nobody waits for any more.
    pub cancels: Vec<JobId>,
    /// Waits for people and events that are over: node and visit.
    pub closed: Vec<(NodeId, u32)>,
    /// There is more to do.
    pub more: bool,
    /// Steps of expressions that were evaluated.
    pub work: u32,
    /// Something was changed by hand since open questions were put last.
    changed: bool,
}

/// Paths of a run at once. Each is remembered and looked at, and a few nodes that lead to each other can make millions.
const PATHS_MAX: usize = 10_000;

/// A job for which there was no room is not tried again sooner: what a tenant uses is not counted more often.
const REFUSED_MS: u64 = 1_000;

/// A job to begin.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    pub job: JobId,
    pub node: NodeId,
    pub visit: u32,
    pub index: u32,
    pub call: Call,
}

impl Turn {
    fn add(&mut self, flow: &mut Flow, record: Record) {
        let open = |wait: Option<&Waiting>| matches!(wait, Some(Waiting::Approval { .. } | Waiting::Event { .. }));
        match &record {
            Record::Step(step) => {
                let ends = |(node, visit, wait): &(&NodeId, u32, Option<&Waiting>)| {
                    **node == step.node && *visit == step.visit && open(*wait)
                };
                if flow.places().any(|place| ends(&place)) {
                    self.closed.push((step.node.clone(), step.visit));
                }
            }
            Record::Canceling { .. } | Record::Undoing { .. } | Record::Closed { .. } => {
                let left = flow.places().filter(|(_, _, wait)| open(*wait));
                self.closed.extend(left.map(|(node, visit, _)| (node.clone(), visit)));
            }
            _ => {}
        }
        flow.apply(&record);
        self.records.push(record);
    }
}

impl Flow {
    /// Hears what came in, and goes on as far as it can.
    pub fn turn(&mut self, messages: impl IntoIterator<Item = Message>, turning: &mut Turning<'_>) -> Turn {
        let mut turn = Turn::default();
        if !self.opened {
            turn.add(self, Record::Opened { at: turning.now });
        }
        for message in messages {
            // Several changes by hand in a row put what is asked once more, not once for each of them.
            if !matches!(message, Message::Steer { .. }) {
                self.ask_again_if_changed(&mut turn, turning);
            }
            self.hear(&mut turn, message, turning);
        }
        self.ask_again_if_changed(&mut turn, turning);
        self.go_on(&mut turn, turning);
        turn
    }

    fn ask_again_if_changed(&mut self, turn: &mut Turn, turning: &mut Turning<'_>) {
        if std::mem::take(&mut turn.changed) {
            self.ask_again(turn, turning);
        }
    }

    /// Hears what came in and then ends with this error, without beginning anything else or undoing what was done. Retried, it
    /// continues from there.
    pub fn stop(
        &mut self,
        messages: impl IntoIterator<Item = Message>,
        error: RunError,
        turning: &mut Turning<'_>,
    ) -> Turn {
        let mut turn = Turn::default();
        if !self.opened {
            turn.add(self, Record::Opened { at: turning.now });
        }
        for message in messages {
            self.hear(&mut turn, message, turning);
        }
        self.ask_again_if_changed(&mut turn, turning);
        turn.launches.clear();
        if self.ending.is_none() {
            turn.cancels.extend(self.jobs());
            let finishing = self.finishing.clone().unwrap_or(Finishing::Badly { error });
            let (status, result, error) = self.outcome(finishing);
            turn.add(self, Record::Closed { status, result, error, at: turning.now });
        }
        turn
    }

    /// How a run ends that is about to.
    fn outcome(&self, finishing: Finishing) -> (JobStatus, Value, Option<RunError>) {
        match finishing {
            _ if self.canceling => (JobStatus::Canceled, Value::Null, None),
            Finishing::Well { result } => (JobStatus::Succeeded, result, None),
            Finishing::Badly { error } => (JobStatus::Failed, Value::Null, Some(error)),
        }
    }

    fn hear(&mut self, turn: &mut Turn, message: Message, turning: &mut Turning<'_>) {
        let at = turning.now;
        if self.ending.is_some() && !matches!(message, Message::Retry) {
            return;
        }
        match message {
            // What they ask for is done in any case.
            Message::GoOn => {}
            Message::Due { at } => turning.now = turning.now.max(at.unwrap_or(turning.now)),
            Message::Ended(ended) => self.hear_of_job(turn, ended, turning),
            Message::Refused { job, call, error } => self.hear_of_refusal(turn, job, call, error, turning),
            Message::Decided { node, visit, approved, by, reason, named } => {
                let waits = |held: &Held| matches!(held.wait, Waiting::Approval { .. });
                if let Some(place) = self.token(&node, visit)
                    && self.tokens[place].held.as_ref().is_some_and(waits)
                {
                    if approved && !named.is_empty() {
                        turn.add(self, Record::Approved { node, visit, named });
                    }
                    self.answer(turn, place, Answer::Decided { approved, by, reason }, turning);
                }
            }
            Message::AskAgain => {
                turn.add(self, Record::AskedAgain { at });
                self.ask_again(turn, turning);
            }
            Message::Event { name, key, payload } => turn.add(self, Record::Signal { name, key, payload }),
            Message::Cancel if self.canceling => {}
            Message::Cancel => {
                turn.cancels.extend(self.jobs());
                turn.add(self, Record::Canceling { at });
            }
            Message::ClockMoved { after, by_us } => self.move_waits(turn, after, by_us),
            Message::Retry => {
                if self.ending.as_ref().is_some_and(|ending| ending.status != JobStatus::Succeeded) {
                    turn.add(self, Record::Retried { at });
                }
            }
            Message::Steer { order, by, reason } => {
                if order.check(&self.program).is_ok() {
                    let edited =
                        order.edits().filter_map(|(name, _)| Some((name.clone(), self.context.variable(&name)?)));
                    let before = edited.map(|(name, value)| (name.to_string(), value.clone())).collect();
                    let changes = order.changes_what_follows();
                    turn.add(self, Record::Steered { order, by, reason, at, before });
                    turn.changed |= changes;
                }
            }
        }
    }

    /// The clock was put back: what was reckoned from a later time waits as long as it would have from the right one.
    fn move_waits(&mut self, turn: &mut Turn, after: Timestamp, by_us: i64) {
        let waiting = || self.tokens.iter().filter_map(|token| Some((token, token.held.as_ref()?)));
        // Of a node's several jobs the last ones may have begun later than the node.
        let is_needed =
            waiting().any(|(_, held)| held.began_at > after || !held.due.is_empty() || !held.refused.is_empty());
        let mut sleeps = Vec::new();
        for (token, held) in waiting().filter(|(_, held)| held.began_at > after) {
            let Waiting::Until(until) = &held.wait else { continue };
            let own = &self.program.nodes[token.node];
            let entered = |now| {
                let context = self.context.for_visit();
                own.node.enter(Visit { context: &context, now, number: token.visit, policy: &own.policy })
            };
            let began_at = held.began_at.plus_micros(by_us);
            // A sleep until a moment that somebody named ends at that moment.
            let until = match entered(began_at) {
                Ok(Next::Wait(Wait::Until(again))) => again,
                // That moment is over, by the right time.
                Ok(_) => began_at,
                Err(_) => until.plus_micros(by_us),
            };
            sleeps.push((own.id.clone(), token.visit, until));
        }
        if is_needed {
            turn.add(self, Record::ClockMoved { after, by_us, sleeps });
        }
    }

    /// Puts every open question to people once more: what they looked at is not what follows any more.
    fn ask_again(&mut self, turn: &mut Turn, turning: &mut Turning<'_>) {
        let program = Arc::clone(&self.program);
        let open: Vec<(NodeIndex, u32)> = self
            .tokens
            .iter()
            .filter(|token| token.held.as_ref().is_some_and(|held| matches!(held.wait, Waiting::Approval { .. })))
            .map(|token| (token.node, token.visit))
            .collect();
        for (at, visit) in open {
            let own = &program.nodes[at];
            let Some(place) = self.token(&own.id, visit) else { continue };
            let Some(held) = &self.tokens[place].held else { continue };
            let (began_at, before) = (held.began_at, held.wait.clone());
            let context = self.context.for_visit();
            let entered =
                own.node.enter(Visit { context: &context, now: turning.now, number: visit, policy: &own.policy });
            turn.work = turn.work.saturating_add(context.spent());
            // What follows changes the context, and would copy what this one still shares.
            drop(context);
            let wait = match (entered, before) {
                // The time to answer does not begin anew.
                (Ok(Next::Wait(Wait::Approval { title, rule, .. })), Waiting::Approval { expires_at, .. }) => {
                    Waiting::Approval { title, expires_at, rule }
                }
                // It cannot be asked any more.
                (Err(error), _) => {
                    self.follow(turn, at, visit, Err(error), began_at, turning);
                    continue;
                }
                (Ok(_), before) => before,
            };
            turn.add(self, Record::Began { node: own.id.clone(), visit, at: began_at, wait });
        }
    }

    /// Where a job is waited for: the place, and the index of its call.
    fn place_of(&self, job: JobId) -> Option<(usize, u32)> {
        let waits = |held: &Held| held.running.iter().find(|(_, id)| **id == job).map(|(index, _)| *index);
        self.tokens.iter().enumerate().find_map(|(n, token)| Some((n, waits(token.held.as_ref()?)?)))
    }

    /// A job could not be made. It is tried again as the node's policy says, and otherwise it has failed.
    fn hear_of_refusal(
        &mut self,
        turn: &mut Turn,
        job: JobId,
        call: Box<Call>,
        error: RunError,
        turning: &mut Turning<'_>,
    ) {
        let Some((place, index)) = self.place_of(job) else { return };
        let Some(held) = &self.tokens[place].held else { return };
        let before = held.refused.get(&index);
        let times = before.map_or(0, |refusals| refusals.times);
        let retry = call.policy.retry.clone().unwrap_or_default();
        let wait_ms = retry.backoff_ms(times).max(REFUSED_MS);
        let again_at = turning.now.plus_millis(i64::try_from(wait_ms).unwrap_or(i64::MAX));
        let is_in_time = held.due.get(&index).is_none_or(|due| again_at < *due);
        let may_retry = retry.allows_after_failure(times.saturating_add(1), error.class) && is_in_time;
        if self.canceling || held.is_stopped() || !may_retry {
            let (status, result) = (JobStatus::Failed, Value::Null);
            return self.hear_of_job(turn, Ended { job: Some(job), status, result, error: Some(error) }, turning);
        }
        let is_known = matches!(held.wait, Waiting::Each { .. }) || before.is_some_and(|b| b.call.is_some());
        let call = (!is_known).then_some(call);
        let (node, visit) = (self.program.nodes[self.tokens[place].node].id.clone(), self.tokens[place].visit);
        turn.add(self, Record::Refused { node, visit, index, call, again_at });
    }

    /// A call that was refused and is to be tried again by now.
    fn next_refused(&self, now: Timestamp) -> Option<(usize, u32)> {
        self.tokens.iter().enumerate().find_map(|(place, token)| {
            let mut refused = token.held.as_ref()?.refused();
            refused.find(|(_, again_at)| *again_at <= now).map(|(index, _)| (place, index))
        })
    }

    fn call_again(&mut self, turn: &mut Turn, (place, index): (usize, u32), turning: &mut Turning<'_>) {
        let token = &self.tokens[place];
        let (node, visit) = (self.program.nodes[token.node].id.clone(), token.visit);
        let job = (turning.mint)();
        if let Some(call) = token.held.as_ref().and_then(|held| held.refused_call(index)) {
            turn.launches.push(Launch { job, node: node.clone(), visit, index, call });
        }
        turn.add(self, Record::Called { node, visit, index, job });
    }

    fn hear_of_job(&mut self, turn: &mut Turn, ended: Ended, turning: &mut Turning<'_>) {
        let Some(job) = ended.job else { return };
        let Some((place, index)) = self.place_of(job) else { return };
        let Some(held) = &self.tokens[place].held else { return };
        let Waiting::Each { calls, stop_on_failure, .. } = &held.wait else {
            self.answer(turn, place, Answer::Ended(ended), turning);
            return;
        };
        let failed = ended.status != JobStatus::Succeeded;
        let stopped = self.canceling || (*stop_on_failure && failed) || held.is_stopped();
        let (node, visit) = (self.program.nodes[self.tokens[place].node].id.clone(), self.tokens[place].visit);
        let (mut launched, mut at) = (Vec::new(), None);
        if !stopped && let Some(call) = held.unmade().first() {
            let next = u32::try_from(calls.len() - held.unmade().len()).unwrap_or(u32::MAX);
            let job = (turning.mint)();
            launched.push(job);
            at = call.deadline_ms.map(|_| turning.now);
            turn.launches.push(Launch { job, node: node.clone(), visit, index: next, call: call.clone() });
        }
        turn.add(self, Record::Heard { node, visit, index, ended, launched, at });
        let Some(held) = &self.tokens[place].held else { return };
        if held.running.is_empty() && (stopped || held.unmade().is_empty() && held.refused().next().is_none()) {
            let Waiting::Each { calls, .. } = &held.wait else { return };
            let ended = (0..calls.len()).map(|n| held.ended.get(&u32::try_from(n).ok()?).cloned()).collect();
            self.answer(turn, place, Answer::Each(ended), turning);
        }
    }

    /// Goes on until nothing can, or somebody must be asked, or the turn is long enough.
    fn go_on(&mut self, turn: &mut Turn, turning: &mut Turning<'_>) {
        let mut taken = 0;
        while self.ending.is_none() {
            if turn.work >= turning.work {
                turn.more = true;
                return;
            }
            if let Some(finishing) = self.finishing.clone() {
                turn.cancels.extend(self.jobs());
                if let Finishing::Badly { error } = &finishing
                    && self.has_to_undo()
                {
                    turn.add(self, Record::Undoing { error: error.clone(), at: turning.now });
                    if self.debug.stepping {
                        turn.add(self, Record::Halted { by: HaltedBy::Step, node: None, at: turning.now });
                    }
                    continue;
                }
                let (status, result, error) = self.outcome(finishing);
                turn.add(self, Record::Closed { status, result, error, at: turning.now });
                return;
            }
            if self.canceling {
                if self.jobs().next().is_none() {
                    let status = JobStatus::Canceled;
                    turn.add(self, Record::Closed { status, result: Value::Null, error: None, at: turning.now });
                }
                return;
            }
            if let Some(job) = self.overdue(turning.now).filter(|_| turning.expires) {
                turn.cancels.push(job);
                let error = RunError::new(ErrorClass::Timeout, "there was no result in time");
                let (status, result) = (JobStatus::Failed, Value::Null);
                self.hear_of_job(turn, Ended { job: Some(job), status, result, error: Some(error) }, turning);
                taken += 1;
                continue;
            }
            if let Some(refused) = self.next_refused(turning.now) {
                self.call_again(turn, refused, turning);
                taken += 1;
                continue;
            }
            if let Some((place, answer)) = self.next_answer(turning.now, turning.expires) {
                self.answer(turn, place, answer, turning);
                taken += 1;
                continue;
            }
            if self.debug.halted.is_some() || self.debug.holds_back() {
                return;
            }
            if let Some((node, gathered)) = self.next_join() {
                if self.stops_before(turn, node, self.visits[node] + 1, turning.now) {
                    return;
                }
                self.pass_join(turn, node, gathered, turning.now);
            } else if let Some(place) = self.tokens.iter().position(|token| token.held.is_none()) {
                if taken >= turning.limit {
                    turn.more = true;
                    return;
                }
                let (node, visit) = (self.tokens[place].node, self.tokens[place].visit);
                if self.stops_before(turn, node, visit, turning.now) {
                    return;
                }
                self.enter(turn, place, turning);
            } else if self.tokens.is_empty() {
                let last = self.last.map(|node| self.program.nodes[node].id.clone());
                let result = last.and_then(|node| self.context.output(node.as_str()).cloned()).unwrap_or_default();
                self.finishing = Some(Finishing::Well { result });
                continue;
            } else {
                return;
            }
            taken += 1;
        }
    }

    /// Stops before a node, if somebody wants that.
    fn stops_before(&mut self, turn: &mut Turn, node: NodeIndex, visit: u32, at: Timestamp) -> bool {
        let id = &self.program.nodes[node].id;
        let Some(by) = self.debug.stops(id, visit, &self.context) else { return false };
        let node = Some(id.clone());
        turn.add(self, Record::Halted { by, node, at });
        true
    }

    /// A job that must have ended by now.
    fn overdue(&self, now: Timestamp) -> Option<JobId> {
        let held = self.tokens.iter().filter_map(|token| token.held.as_ref());
        held.flat_map(|held| held.due.iter().map(move |(index, at)| (held.running.get(index), *at)))
            .find_map(|(job, at)| job.copied().filter(|_| at <= now))
    }

    /// Whoever waited for a time that has come, or for something that happened.
    fn next_answer(&self, now: Timestamp, expires: bool) -> Option<(usize, Answer)> {
        self.tokens.iter().enumerate().find_map(|(place, token)| {
            let wait = &token.held.as_ref()?.wait;
            if let Some(signal) = self.mailbox.find(wait) {
                return Some((place, Answer::Event(signal.payload.clone())));
            }
            let due = wait.due_at().is_some_and(|at| at <= now);
            let is_sleep = matches!(wait, Waiting::Until(_));
            let answer = if is_sleep { Answer::Due } else { Answer::Expired };
            (due && (is_sleep || expires)).then_some((place, answer))
        })
    }

    fn pass_join(&mut self, turn: &mut Turn, node: NodeIndex, gathered: Gathered, now: Timestamp) {
        let id = self.program.nodes[node].id.clone();
        let visit = self.visits[node] + 1;
        let result = match gathered {
            Gathered::Goes { arrived } => {
                Ok(Done { output: json!({"arrived": arrived}), exit: Exit::Success, set: Vec::new() })
            }
            Gathered::CannotGo { arrived, wanted } => {
                let message = format!("only {arrived} of the {wanted} paths that it waits for came");
                let output = Map::from_iter([("arrived".to_owned(), json!(arrived))]);
                Err(Failed { error: RunError::new(ErrorClass::Permanent, message), output })
            }
        };
        self.over(turn, id, visit, result, (now, now), Origin::Own);
    }

    fn enter(&mut self, turn: &mut Turn, place: usize, turning: &mut Turning<'_>) {
        let now = turning.now;
        let program = Arc::clone(&self.program);
        let (at, visit) = (self.tokens[place].node, self.tokens[place].visit);
        let node = &program.nodes[at];
        // However many it took, what they did can be undone.
        if self.steps >= program.max_steps && self.undoing.is_none() {
            let message = format!("the run has taken {} steps, and may take no more", self.steps);
            self.finishing = Some(Finishing::Badly { error: RunError::new(ErrorClass::Permanent, message) });
            return;
        }
        if self.tokens.len() > PATHS_MAX {
            let message = format!("the run has more than {PATHS_MAX} paths at once");
            self.finishing = Some(Finishing::Badly { error: RunError::new(ErrorClass::Permanent, message) });
            return;
        }
        if let Some(output) = self.debug.pins.get(&node.id) {
            // Checked when it was said; one that was said before there were such checks may still not fit.
            let unfit = |what| {
                Failed::from(RunError::new(ErrorClass::Permanent, format!("what is pinned does not fit: output{what}")))
            };
            let result = node.pinned(output).map_err(unfit);
            self.over(turn, node.id.clone(), visit, result, (now, now), Origin::Pinned);
            return;
        }
        let context = self.context.for_visit();
        let entered = node.node.enter(Visit { context: &context, now, number: visit, policy: &node.policy });
        turn.work = turn.work.saturating_add(context.spent());
        // What follows changes the context, and would copy what this one still shares.
        drop(context);
        self.follow(turn, at, visit, entered, now, turning);
    }

    /// What was waited for has come about.
    fn answer(&mut self, turn: &mut Turn, place: usize, answer: Answer, turning: &mut Turning<'_>) {
        let program = Arc::clone(&self.program);
        let (at, visit) = (self.tokens[place].node, self.tokens[place].visit);
        let began_at = self.tokens[place].held.as_ref().map_or(turning.now, |held| held.began_at);
        let node = &program.nodes[at];
        let context = self.context.for_visit();
        let visiting = Visit { context: &context, now: turning.now, number: visit, policy: &node.policy };
        let next = if self.canceling {
            Err(RunError::new(ErrorClass::Permanent, "canceled"))
        } else {
            node.node.answered(visiting, answer)
        };
        turn.work = turn.work.saturating_add(context.spent());
        drop(context);
        self.follow(turn, at, visit, next, began_at, turning);
    }

    /// Records what comes of a node.
    fn follow(
        &mut self,
        turn: &mut Turn,
        at: NodeIndex,
        visit: u32,
        next: Result<Next, RunError>,
        began_at: Timestamp,
        turning: &mut Turning<'_>,
    ) {
        let node = self.program.nodes[at].id.clone();
        let wait = match next {
            Ok(Next::Done(done)) => {
                return self.over(turn, node, visit, Ok(done), (began_at, turning.now), Origin::Own);
            }
            Ok(Next::Failed(failed)) => {
                return self.over(turn, node, visit, Err(failed), (began_at, turning.now), Origin::Own);
            }
            Err(error) => return self.over(turn, node, visit, Err(error.into()), (began_at, turning.now), Origin::Own),
            Ok(Next::Wait(wait)) => wait,
        };
        let mut launch = |index: u32, call: Call| {
            let job = (turning.mint)();
            turn.launches.push(Launch { job, node: node.clone(), visit, index, call });
            job
        };
        let wait = match wait {
            Wait::Until(at) => Waiting::Until(at),
            Wait::Approval { title, expires_at, rule } => Waiting::Approval { title, expires_at, rule },
            Wait::Event { name, key, expires_at } => Waiting::Event { name, key, expires_at },
            Wait::Call(call) => {
                let expires_at = call.due_at(turning.now);
                Waiting::Call { job: launch(0, *call), expires_at }
            }
            Wait::Each { calls, .. } if calls.is_empty() => {
                // Nobody to wait for.
                let program = Arc::clone(&self.program);
                let own = &program.nodes[at];
                let context = self.context.for_visit();
                let visiting = Visit { context: &context, now: turning.now, number: visit, policy: &own.policy };
                let result = match own.node.answered(visiting, Answer::Each(Vec::new())) {
                    Ok(Next::Done(done)) => Ok(done),
                    Ok(Next::Wait(_)) => Err(RunError::new(ErrorClass::Handler, "waits for nobody").into()),
                    Ok(Next::Failed(failed)) => Err(failed),
                    Err(error) => Err(error.into()),
                };
                return self.over(turn, node, visit, result, (began_at, turning.now), Origin::Own);
            }
            Wait::Each { calls, concurrency, stop_on_failure } => {
                let first = calls.iter().take(concurrency.max(1) as usize);
                let launched = (0..).zip(first).map(|(index, call)| launch(index, call.clone())).collect();
                Waiting::Each { calls, concurrency, stop_on_failure, launched }
            }
        };
        turn.add(self, Record::Began { node, visit, at: began_at, wait });
    }

    /// Records that a node is over.
    fn over(
        &mut self,
        turn: &mut Turn,
        node: NodeId,
        visit: u32,
        result: Result<Done, Failed>,
        (began_at, ended_at): (Timestamp, Timestamp),
        origin: Origin,
    ) {
        let n = self.steps + 1;
        let step = match result {
            Ok(Done { output, exit, set }) => Step {
                n,
                node,
                visit,
                status: StepStatus::Success,
                exit,
                began_at,
                ended_at,
                output,
                set,
                error: None,
                origin,
            },
            Err(failed) => {
                let (error, output) = failed.into_parts();
                Step {
                    n,
                    node,
                    visit,
                    status: StepStatus::Failed,
                    exit: Exit::Success,
                    began_at,
                    ended_at,
                    output,
                    set: Vec::new(),
                    error: Some(error),
                    origin,
                }
            }
        };
        turn.add(self, Record::Step(step));
        // Wherever its result came from: if single-stepping, nothing begins before somebody says so.
        let goes_on = self.finishing.is_none() && !self.canceling && self.debug.halted.is_none();
        if self.debug.stepping && goes_on && self.next_place().is_some() {
            turn.add(self, Record::Halted { by: HaltedBy::Step, node: None, at: ended_at });
        }
    }
}
