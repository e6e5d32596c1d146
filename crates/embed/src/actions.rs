//! What a state's handler says is to be done.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_model::blueprint::{
    Action, AwaitApproval, DispatchParallel, DispatchTask, ParallelTask, RunBlueprint, Sleep, Transitions,
};
use bowline_model::{Labels, ResourceName, TaskType, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::error::Failure;

#[derive(Debug, Default)]
struct Said {
    actions: Vec<Action>,
    /// The first thing that cannot be done. The handler fails with it, although its calls looked well.
    mistake: Option<String>,
}

/// What a handler wants done. At most one action may be said; if none is, the run is over.
///
/// What is said counts once the handler returns with success, and not before: a handler that fails and is tried again begins
/// anew.
#[derive(Debug, Clone, Default)]
pub struct Actions(Arc<Mutex<Said>>);

impl Actions {
    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn json(&self, what: &str, value: impl Serialize) -> Value {
        serde_json::to_value(value).unwrap_or_else(|error| {
            self.mistake(format!("{what} cannot be written as JSON: {error}"));
            Value::Null
        })
    }

    fn mistake(&self, what: String) {
        self.said().mistake.get_or_insert(what);
    }

    /// A name, or a mistake and nothing to do.
    fn task_type(&self, name: &str) -> Option<TaskType> {
        TaskType::new(name).map_err(|error| self.mistake(format!("{name:?}: {error}"))).ok()
    }

    fn say(&self, action: Option<Action>) -> Saying {
        let mut said = self.said();
        let index = action.map(|action| {
            said.actions.push(action);
            said.actions.len() - 1
        });
        Saying { actions: self.clone(), index }
    }

    pub(crate) fn take(&self) -> Result<Vec<Action>, Failure> {
        let mut said = self.said();
        match said.mistake.take() {
            Some(mistake) => Err(Failure::permanent(mistake)),
            None => Ok(std::mem::take(&mut said.actions)),
        }
    }

    /// Goes on to another state.
    pub fn transition_to(&self, state: &str) {
        self.say(Some(Action::TransitionTo(state.to_owned())));
    }

    /// Has a worker do something. What follows is said with [`TaskAction::on`].
    pub fn dispatch_task(&self, task_type: &str, params: impl Serialize) -> TaskAction {
        let params = self.json("params", params);
        let action = self.task_type(task_type).map(|task_type| {
            Action::DispatchTask(DispatchTask {
                task_type,
                params,
                transitions: Transitions::new(),
                timeout_seconds: None,
                retries: None,
                labels: Labels::default(),
                priority: None,
            })
        });
        TaskAction(self.say(action))
    }

    /// Has workers do several things at once. The state in [`ParallelAction::aggregate_into`] is told how all of them ended.
    pub fn dispatch_parallel(&self, tasks: impl IntoIterator<Item = Task>) -> ParallelAction {
        let tasks = tasks.into_iter().filter_map(|task| {
            let params = task.params.unwrap_or_else(|error| {
                self.mistake(format!("params cannot be written as JSON: {error}"));
                Value::Null
            });
            Some(ParallelTask {
                task_type: self.task_type(&task.task_type)?,
                params,
                timeout_seconds: task.timeout.map(|timeout| timeout.as_secs_f64()),
                retries: task.retries,
                labels: Labels::default(),
                priority: None,
            })
        });
        let all = DispatchParallel {
            tasks: tasks.collect(),
            concurrency: None,
            aggregate_into: String::new(),
            fail_fast: false,
        };
        ParallelAction(self.say(Some(Action::DispatchParallel(all))))
    }

    /// Waits for a person.
    pub fn await_approval(&self, title: impl Into<String>) -> ApprovalAction {
        let (title, transitions) = (title.into(), Transitions::new());
        let approval =
            AwaitApproval { title, transitions, timeout_seconds: None, quorum: None, four_eyes: Some(false) };
        ApprovalAction(self.say(Some(Action::AwaitApproval(approval))))
    }

    /// Runs another blueprint with these data.
    pub fn run_blueprint(&self, name: &str, data: impl Serialize) -> BlueprintAction {
        let data = self.json("data", data);
        let name = ResourceName::new(name).map_err(|error| self.mistake(format!("{name:?}: {error}"))).ok();
        let action = name.map(|blueprint| {
            Action::RunBlueprint(RunBlueprint { blueprint, version: None, data, transitions: Transitions::new() })
        });
        BlueprintAction(self.say(action))
    }

    /// Does nothing for a while, up to ten years. Nothing is held for it: the program may end and begin again meanwhile.
    pub fn sleep(&self, duration: Duration) -> SleepAction {
        let sleep = Sleep { seconds: Some(duration.as_secs_f64()), until: None, then: String::new() };
        SleepAction(self.say(Some(Action::Sleep(sleep))))
    }

    /// Does nothing until a moment.
    pub fn sleep_until(&self, moment: Timestamp) -> SleepAction {
        let sleep = Sleep { seconds: None, until: Some(moment.to_string()), then: String::new() };
        SleepAction(self.say(Some(Action::Sleep(sleep))))
    }
}

/// An action that was said and can be said more of.
#[derive(Debug)]
struct Saying {
    actions: Actions,
    index: Option<usize>,
}

impl Saying {
    fn change(&self, change: impl FnOnce(&mut Action)) {
        let mut said = self.actions.said();
        if let Some(action) = self.index.and_then(|index| said.actions.get_mut(index)) {
            change(action);
        }
    }

    fn on(&self, word: &str, state: &str) {
        self.change(|action| {
            let (Action::DispatchTask(DispatchTask { transitions, .. })
            | Action::AwaitApproval(AwaitApproval { transitions, .. })
            | Action::RunBlueprint(RunBlueprint { transitions, .. })) = action
            else {
                return;
            };
            transitions.insert(word.to_owned(), state.to_owned());
        });
    }

    fn task(&self, change: impl FnOnce(&mut DispatchTask)) {
        self.change(|action| {
            if let Action::DispatchTask(task) = action {
                change(task);
            }
        });
    }
}

/// A task that was asked for; see [`Actions::dispatch_task`].
#[derive(Debug)]
pub struct TaskAction(Saying);

impl TaskAction {
    /// Which state follows: on `success`, `failure`, `timeout`, or a word that the result has as its `status`.
    pub fn on(self, word: &str, state: &str) -> Self {
        self.0.on(word, state);
        self
    }

    /// How long it may take.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.0.task(|task| task.timeout_seconds = Some(timeout.as_secs_f64()));
        self
    }

    /// How often it is tried again after it has failed. Three times, unless said.
    pub fn retries(self, retries: u32) -> Self {
        self.0.task(|task| task.retries = Some(retries));
        self
    }

    /// Higher goes first, from -100 to 100.
    pub fn priority(self, priority: i16) -> Self {
        self.0.task(|task| task.priority = Some(priority));
        self
    }
}

/// One of several tasks; see [`Actions::dispatch_parallel`].
#[derive(Debug)]
pub struct Task {
    task_type: String,
    params: Result<Value, serde_json::Error>,
    timeout: Option<Duration>,
    retries: Option<u32>,
}

impl Task {
    /// A task of this type, with these parameters.
    pub fn new(task_type: &str, params: impl Serialize) -> Self {
        let params = serde_json::to_value(params);
        Self { task_type: task_type.to_owned(), params, timeout: None, retries: None }
    }

    /// How long it may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How often it is tried again after it has failed. Three times, unless said.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = Some(retries);
        self
    }
}

/// Several tasks that were asked for; see [`Actions::dispatch_parallel`].
#[derive(Debug)]
pub struct ParallelAction(Saying);

impl ParallelAction {
    fn all(self, change: impl FnOnce(&mut DispatchParallel)) -> Self {
        self.0.change(|action| {
            if let Action::DispatchParallel(all) = action {
                change(all);
            }
        });
        self
    }

    /// The state that follows when all have ended, well or badly; see [`StateContext::results`](crate::StateContext::results).
    pub fn aggregate_into(self, state: &str) -> Self {
        self.all(|all| state.clone_into(&mut all.aggregate_into))
    }

    /// How many at a time, up to a thousand.
    pub fn concurrency(self, number: u32) -> Self {
        self.all(|all| all.concurrency = Some(number))
    }

    /// After a failure no more are begun.
    pub fn fail_fast(self) -> Self {
        self.all(|all| all.fail_fast = true)
    }
}

/// A question that was asked; see [`Actions::await_approval`].
#[derive(Debug)]
pub struct ApprovalAction(Saying);

impl ApprovalAction {
    /// The state that follows on a yes.
    pub fn approved(self, state: &str) -> Self {
        self.0.on("approved", state);
        self
    }

    /// The state that follows on a no. Without it, a no is a failure.
    pub fn rejected(self, state: &str) -> Self {
        self.0.on("rejected", state);
        self
    }

    /// The state that follows if nobody answers within this time.
    pub fn expired(self, after: Duration, state: &str) -> Self {
        self.0.on("expired", state);
        self.0.change(|action| {
            if let Action::AwaitApproval(approval) = action {
                approval.timeout_seconds = Some(after.as_secs_f64());
            }
        });
        self
    }
}

/// Another blueprint that was asked for; see [`Actions::run_blueprint`].
#[derive(Debug)]
pub struct BlueprintAction(Saying);

impl BlueprintAction {
    /// Which state follows: on `success`, `failure`, or a word that the data have as their `status` in the end.
    pub fn on(self, word: &str, state: &str) -> Self {
        self.0.on(word, state);
        self
    }
}

/// A sleep that was asked for; see [`Actions::sleep`].
#[derive(Debug)]
pub struct SleepAction(Saying);

impl SleepAction {
    /// The state that follows.
    pub fn then(self, state: &str) {
        self.0.change(|action| {
            if let Action::Sleep(sleep) = action {
                state.clone_into(&mut sleep.then);
            }
        });
    }
}
