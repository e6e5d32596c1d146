//! A blueprint in Rust: typed data, and an async function per state.

use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bowline_engine::builtin::{Handler, HandlerFuture, Task};
use bowline_model::blueprint::{BlueprintSpec, HandlerAnswer, StateSpec};
use bowline_model::name::NotAName;
use bowline_model::{ErrorClass, JobId, RunError, TaskType};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::actions::Actions;
use crate::error::Failure;

/// The task type under which the handler of a state runs. A state of a blueprint in YAML that names it as its `handler` uses
/// the function in Rust.
///
/// ```
/// assert_eq!(bowline_embed::task_type_of("order", "init").unwrap().as_str(), "blueprint.order.init");
/// ```
pub fn task_type_of(blueprint: &str, state: &str) -> Result<TaskType, NotAName> {
    // States may have an underscore at the beginning, which a part of a task type may have, too.
    TaskType::new(&format!("blueprint.{blueprint}.{state}"))
}

/// A state machine with data of type `T`.
///
/// `T` is an object to serde: a struct with named fields, or a map. Each field is a variable of the run. What a handler
/// returns are the data from then on; a field that it leaves out keeps its value.
///
/// ```
/// use bowline_embed::{Actions, Blueprint, StateContext};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Counter { n: u32 }
///
/// async fn count(mut data: Counter, actions: Actions, _: StateContext) -> Result<Counter, bowline_embed::Failure> {
///     data.n += 1;
///     actions.transition_to(if data.n < 10 { "count" } else { "done" });
///     Ok(data)
/// }
///
/// let mut counter = Blueprint::new("counter");
/// counter.state("count", count).retries(3).retry_delay(std::time::Duration::from_secs(5));
/// counter.end("done");
/// assert_eq!(counter.spec().unwrap().start, "count");
/// ```
pub struct Blueprint<T> {
    name: String,
    description: String,
    start: Option<String>,
    states: Vec<State>,
    data: PhantomData<fn(T) -> T>,
}

impl<T> std::fmt::Debug for Blueprint<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blueprint").field("name", &self.name).field("states", &self.states).finish_non_exhaustive()
    }
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Blueprint<T> {
    /// A blueprint without states. It is known by this name to those who run it.
    pub fn new(name: &str) -> Self {
        let (name, description) = (name.to_owned(), String::new());
        Self { name, description, start: None, states: Vec::new(), data: PhantomData }
    }

    /// What it is for. Shown to people.
    pub fn describe(&mut self, description: &str) -> &mut Self {
        description.clone_into(&mut self.description);
        self
    }

    /// Begins in this state instead of the first one that was added.
    pub fn start_at(&mut self, state: &str) -> &mut Self {
        self.start = Some(state.to_owned());
        self
    }

    /// A state, and what is done in it. Failures are tried again as often as [`State::retries`] says.
    pub fn state<F, R>(&mut self, name: &str, handler: F) -> &mut State
    where
        F: Fn(T, Actions, StateContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let handle = move |task: Task| -> HandlerFuture {
            let handler = Arc::clone(&handler);
            Box::pin(async move {
                let asked: Asked = read(&task.payload)?;
                let (blueprint, state) = (asked.blueprint.clone(), asked.state.clone());
                let data: T = serde_path_to_error::deserialize(Value::Object(asked.data)).map_err(|error| {
                    let (path, what) = (error.path().to_string(), error.inner().to_string());
                    let place = if path == "." { String::new() } else { format!(" at `{path}`") };
                    permanent(format!("the data of blueprint {blueprint} do not fit state {state}{place}: {what}"))
                })?;
                let context = StateContext {
                    job: asked.job_id,
                    state: asked.state,
                    blueprint: asked.blueprint,
                    attempt: task.attempt,
                    visit: asked.visit,
                    task_result: asked.task_result,
                    error: asked.error,
                };
                let actions = Actions::default();
                let after = handler(data, actions.clone(), context).await.map_err(|failure| failure.0)?;
                let answer = HandlerAnswer { data: written(&after)?, actions: actions.take().map_err(|f| f.0)? };
                let text = serde_json::to_string(&answer).map_err(|e| permanent(e.to_string()))?;
                Ok(Some(text.into()))
            })
        };
        self.add(name, Some(Arc::new(handle)), StateSpec::default())
    }

    /// A state in which the run is over. Its data are the result.
    pub fn end(&mut self, name: &str) -> &mut State {
        self.add(name, None, StateSpec { is_final: true, ..StateSpec::default() })
    }

    /// A state in which the run is over, and has failed.
    pub fn failed(&mut self, name: &str) -> &mut State {
        self.add(name, None, StateSpec { failed: true, ..StateSpec::default() })
    }

    fn add(&mut self, name: &str, handler: Option<Arc<dyn Handler>>, spec: StateSpec) -> &mut State {
        self.states.push(State { name: name.to_owned(), spec, handler });
        self.states.last_mut().expect("one was pushed just now")
    }

    /// The blueprint as data: what the engine is given.
    pub fn spec(&self) -> Result<BlueprintSpec, NotAName> {
        let mut states = BTreeMap::new();
        for state in &self.states {
            let handler = state.handler.as_ref().map(|_| task_type_of(&self.name, &state.name)).transpose()?;
            states.insert(state.name.clone(), StateSpec { handler, ..state.spec.clone() });
        }
        let first = || self.states.first().map(|state| state.name.clone()).unwrap_or_default();
        Ok(BlueprintSpec {
            description: self.description.clone(),
            start: self.start.clone().unwrap_or_else(first),
            states,
            max_steps: BlueprintSpec::MAX_STEPS,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Handlers by their states.
    pub(crate) fn handlers(&self) -> impl Iterator<Item = (&str, Arc<dyn Handler>)> {
        self.states.iter().filter_map(|state| Some((state.name.as_str(), Arc::clone(state.handler.as_ref()?))))
    }

    /// The first state that was added twice.
    pub(crate) fn doubled(&self) -> Option<&str> {
        let twice = |(n, state): (usize, &State)| self.states[..n].iter().any(|other| other.name == state.name);
        self.states.iter().enumerate().find(|pair| twice(*pair)).map(|(_, state)| state.name.as_str())
    }
}

/// A state of a [`Blueprint`], and how patient to be with it.
pub struct State {
    name: String,
    spec: StateSpec,
    handler: Option<Arc<dyn Handler>>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("name", &self.name).field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl State {
    /// How often the handler is asked again after it has failed. Never, unless said.
    pub fn retries(&mut self, retries: u32) -> &mut Self {
        self.spec.retries = retries;
        self
    }

    /// How long to wait before each time. A quarter of a second, unless said.
    pub fn retry_delay(&mut self, delay: Duration) -> &mut Self {
        self.spec.retry_delay_ms = Some(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// How long the handler may take.
    pub fn timeout(&mut self, timeout: Duration) -> &mut Self {
        self.spec.timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// The state that takes over when this one has failed for good. Without it, the run fails.
    pub fn on_failure(&mut self, state: &str) -> &mut Self {
        self.spec.on_failure = Some(state.to_owned());
        self
    }
}

/// What a state's handler knows beside the data.
#[derive(Debug, Clone)]
pub struct StateContext {
    /// The run.
    pub job: Option<JobId>,
    /// The blueprint's name.
    pub blueprint: String,
    /// The state's name.
    pub state: String,
    /// Which attempt of the handler this is, from 1.
    pub attempt: u32,
    /// How often the run has come to this state, from 1.
    pub visit: u32,
    /// How the last task, blueprint or approval ended: an object with `status`, and `result` or `error`.
    pub task_result: Value,
    /// What failed last, if a state of this run has failed: an object with `node`, `class` and `message`.
    pub error: Value,
}

impl StateContext {
    /// In a word, how the last task, blueprint or approval ended.
    pub fn status(&self) -> Option<&str> {
        self.task_result["status"].as_str()
    }

    /// What the last task or blueprint left behind, typed.
    pub fn result_of_task<R: DeserializeOwned>(&self) -> Result<R, Failure> {
        typed(&self.task_result["result"], "the result of the task")
    }

    /// What became of each of several tasks, in their order: its result, or why there is none.
    pub fn results<R: DeserializeOwned>(&self) -> Result<Vec<Result<R, String>>, Failure> {
        let Some(results) = self.task_result["results"].as_array() else {
            return Err(Failure::permanent("there are no results of several tasks"));
        };
        results
            .iter()
            .map(|result| match result["status"].as_str() {
                Some("success") => typed(&result["result"], "the result of a task").map(Ok),
                Some("skipped") => Ok(Err("it was not begun".to_owned())),
                _ => Ok(Err(result["error"]["message"].as_str().unwrap_or("it failed").to_owned())),
            })
            .collect()
    }
}

fn typed<R: DeserializeOwned>(value: &Value, what: &str) -> Result<R, Failure> {
    serde_path_to_error::deserialize(value)
        .map_err(|error| Failure::permanent(format!("{what} does not fit at {}: {}", error.path(), error.inner())))
}

/// What the handler of a state is asked.
#[derive(Deserialize)]
struct Asked {
    blueprint: String,
    state: String,
    job_id: Option<JobId>,
    data: Map<String, Value>,
    #[serde(default)]
    task_result: Value,
    #[serde(default)]
    error: Value,
    visit: u32,
}

fn permanent(message: impl Into<String>) -> RunError {
    RunError::new(ErrorClass::Permanent, message)
}

fn read(payload: &str) -> Result<Asked, RunError> {
    serde_json::from_str(payload).map_err(|e| permanent(format!("this is no question to a state's handler: {e}")))
}

/// Data as fields. Anything but an object has none.
fn written(data: &impl Serialize) -> Result<Map<String, Value>, RunError> {
    match serde_json::to_value(data) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(permanent("the data of a blueprint are an object: a struct with named fields, or a map")),
        Err(error) => Err(permanent(format!("the data cannot be written as JSON: {error}"))),
    }
}
