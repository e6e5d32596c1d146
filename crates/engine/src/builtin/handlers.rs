//! What the built-in worker can do: `noop`, `echo`, `sleep`, `fail`; and whatever an embedding program adds, such as
//! `http_request`, which needs a door to the outside.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bowline_model::{ErrorClass, JobId, RunError, RunId, TaskType, TenantId};
use rand::RngExt;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::check::CheckFuture;

/// What a handler gets.
#[derive(Debug, Clone)]
pub struct Task {
    pub run: RunId,
    pub job: JobId,
    pub tenant: TenantId,
    pub payload: Arc<str>,
    pub attempt: u32,
    pub fence: u32,
    /// The trace of the job, if it came with one.
    pub trace_id: Option<Arc<str>>,
    /// Canceled when the run should stop. A handler that returns after that is taken to have stopped.
    pub stop: CancellationToken,
}

pub type HandlerFuture = Pin<Box<dyn Future<Output = Result<Option<Arc<str>>, RunError>> + Send>>;

/// One way to do one sort of work. The answer is JSON, or nothing.
pub trait Handler: Send + Sync {
    fn handle(&self, task: Task) -> HandlerFuture;

    /// Whether it does nothing but wait for a time. What only waits takes no slot of the worker.
    fn only_waits(&self) -> bool {
        false
    }

    /// Looks at a payload before its job is accepted. Whoever does not care takes everything.
    fn check<'a>(&'a self, _tenant: TenantId, _payload: &'a str) -> CheckFuture<'a> {
        Box::pin(std::future::ready(Ok(Ok(()))))
    }
}

impl<F, R> Handler for F
where
    F: Fn(Task) -> R + Send + Sync,
    R: Future<Output = Result<Option<Arc<str>>, RunError>> + Send + 'static,
{
    fn handle(&self, task: Task) -> HandlerFuture {
        Box::pin(self(task))
    }
}

/// Handlers by the task type they take.
#[derive(Clone, Default)]
pub struct Handlers(BTreeMap<TaskType, Arc<dyn Handler>>);

impl std::fmt::Debug for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Handlers {
    /// The ones that come with the house.
    pub fn standard() -> Self {
        let mut handlers = Self::default();
        let types = [
            ("noop", Arc::new(noop) as Arc<dyn Handler>),
            ("echo", Arc::new(echo)),
            ("sleep", Arc::new(Sleep)),
            ("fail", Arc::new(fail)),
            ("bench.stamp", Arc::new(stamp)),
        ];
        for (name, handler) in types {
            handlers.0.insert(TaskType::new(name).expect("the standard names are names"), handler);
        }
        handlers
    }

    pub fn add(&mut self, task_type: TaskType, handler: Arc<dyn Handler>) {
        self.0.insert(task_type, handler);
    }

    pub fn find(&self, task_type: &TaskType) -> Option<&Arc<dyn Handler>> {
        self.0.get(task_type)
    }

    pub fn task_types(&self) -> impl Iterator<Item = &TaskType> {
        self.0.keys()
    }
}

pub(super) fn read<'a, T: Deserialize<'a>>(payload: &'a str, shape: &str) -> Result<T, RunError> {
    serde_json::from_str(payload)
        .map_err(|e| RunError::new(ErrorClass::Permanent, format!("the payload must be {shape}: {e}")))
}

/// Does nothing, well.
async fn noop(_: Task) -> Result<Option<Arc<str>>, RunError> {
    Ok(None)
}

/// Answers with its payload.
async fn echo(task: Task) -> Result<Option<Arc<str>>, RunError> {
    Ok(Some(task.payload))
}

/// Answers when it began, by the machine's clock: for `bowline bench`.
#[expect(clippy::disallowed_methods, reason = "both sides of a measurement stamp by the machine's clock")]
async fn stamp(_: Task) -> Result<Option<Arc<str>>, RunError> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(Some(format!(r#"{{"started_us":{}}}"#, now.as_micros()).into()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SleepPayload {
    ms: u64,
}

/// The handler of `sleep`.
struct Sleep;

impl Handler for Sleep {
    fn handle(&self, task: Task) -> HandlerFuture {
        Box::pin(sleep(task))
    }

    fn only_waits(&self) -> bool {
        true
    }
}

/// Waits, and stops waiting when asked to.
async fn sleep(task: Task) -> Result<Option<Arc<str>>, RunError> {
    let wish: SleepPayload = read(&task.payload, r#"{"ms": 100}"#)?;
    tokio::select! {
        biased;
        () = task.stop.cancelled() => Ok(None),
        () = tokio::time::sleep(Duration::from_millis(wish.ms)) => Ok(None),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FailPayload {
    probability: f64,
    class: ErrorClass,
    message: String,
}

impl Default for FailPayload {
    fn default() -> Self {
        Self { probability: 1.0, class: ErrorClass::Transient, message: "asked to fail".to_owned() }
    }
}

/// Fails, by a given probability and in a given way. Class `handler` panics, as a broken handler would.
async fn fail(task: Task) -> Result<Option<Arc<str>>, RunError> {
    let shape = r#"{"probability": 0.5, "class": "transient", "message": "…"}"#;
    let wish: FailPayload =
        if task.payload.trim() == "null" { FailPayload::default() } else { read(&task.payload, shape)? };
    if rand::rng().random::<f64>() >= wish.probability {
        return Ok(None);
    }
    if wish.class == ErrorClass::Handler {
        panic!("{}", wish.message);
    }
    Err(RunError::new(wish.class, wish.message))
}

#[cfg(test)]
impl Task {
    /// For tests of handlers: everything but the payload is made up.
    pub(super) fn with(payload: &str) -> Self {
        let at = bowline_model::Timestamp::from_millis(1);
        Self {
            run: RunId::mint(at, [1; 10]),
            job: JobId::mint(at, [2; 10]),
            tenant: TenantId::mint(at, [3; 10]),
            payload: payload.into(),
            attempt: 1,
            fence: 1,
            trace_id: None,
            stop: CancellationToken::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failure_is_of_the_class_that_was_asked_for_and_a_broken_handler_panics() {
        let error = fail(Task::with(r#"{"class": "permanent", "message": "boom"}"#)).await.expect_err("it fails");
        assert_eq!((error.class, error.message.as_str()), (ErrorClass::Permanent, "boom"));
        assert_eq!(fail(Task::with("null")).await.expect_err("it fails").class, ErrorClass::Transient);
        assert_eq!(fail(Task::with(r#"{"probability": 0.0}"#)).await, Ok(None));
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(fail(Task::with(r#"{"class": "handler", "message": "boom"}"#)));
        let panicked = tasks.join_next().await.expect("a task").expect_err("it panics");
        assert!(panicked.is_panic());
    }

    #[tokio::test]
    async fn an_echo_repeats_its_payload_and_a_stamp_says_when_it_began() {
        assert_eq!(echo(Task::with("[1]")).await, Ok(Some("[1]".into())));
        let stamped = stamp(Task::with("null")).await.expect("done").expect("a stamp");
        let stamped: serde_json::Value = serde_json::from_str(&stamped).expect("JSON");
        assert!(stamped["started_us"].as_u64().is_some_and(|us| us > 0), "{stamped}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_ends_when_its_time_is_over_or_it_is_told_to_stop() {
        let error = sleep(Task::with(r#"{"seconds": 1}"#)).await.expect_err("there is no such field");
        assert_eq!(error.class, ErrorClass::Permanent);
        assert!(error.message.starts_with(r#"the payload must be {"ms": 100}: "#), "{}", error.message);
        let (task, begun) = (Task::with(r#"{"ms": 1500}"#), tokio::time::Instant::now());
        let stop = task.stop.clone();
        assert_eq!(sleep(task.clone()).await, Ok(None));
        assert_eq!(begun.elapsed().as_millis(), 1_500);
        stop.cancel();
        assert_eq!(sleep(task).await, Ok(None));
        assert_eq!(begun.elapsed().as_millis(), 1_500, "it did not wait again");
    }
}
