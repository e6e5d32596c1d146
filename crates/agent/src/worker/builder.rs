//! Putting a worker together: who it is, what it can do, how patient it is.
//!
//! Mistakes are gathered on the way and told by [`WorkerBuilder::build`], the first one first, before any call is made.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_model::name::NotAName;
use bowline_model::{Labels, RetryPolicy, TaskType, WorkerName};
use bowline_protocol::RegisterRequest;
use serde::Serialize;

use crate::server::client::{BadAddress, Client};
use crate::server::link::LinkSettings;
use crate::worker::context::TaskContext;
use crate::worker::day::Worker;
use crate::worker::handlers::{Handlers, handler};
use crate::worker::shared::Settings;
use crate::worker::task_error::TaskError;

const SLOTS_MAX: u32 = 100_000;
const POLL_WAIT_MIN: Duration = Duration::from_secs(1);
const POLL_WAIT_MAX: Duration = Duration::from_secs(60);

/// Why there cannot be such a worker.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("the server's address: {0}")]
    Address(String),
    #[error("a worker needs a worker_id")]
    NoWorkerId,
    #[error(transparent)]
    Name(#[from] NotAName),
    #[error("a worker needs a handler for one task type at least")]
    NoTask,
    #[error("there are two handlers for task type {0}")]
    TwoHandlers(TaskType),
    #[error("slots must be between 1 and {SLOTS_MAX}")]
    Slots,
    #[error("resources must be JSON")]
    Resources(#[source] serde_json::Error),
}

/// A worker in the making. See [`Worker::builder`].
#[must_use]
pub struct WorkerBuilder {
    address: String,
    token: String,
    insecure_http: bool,
    worker_id: Option<String>,
    worker_type: Option<String>,
    labels: BTreeMap<String, String>,
    slots: u32,
    resources: Option<serde_json::Value>,
    handlers: Handlers,
    poll_wait: Duration,
    grace: Duration,
    stop_when_cut_off: bool,
    backoff: RetryPolicy,
    mistake: Option<BuildError>,
}

impl WorkerBuilder {
    pub(crate) fn new(address: &str, token: &str) -> Self {
        Self {
            address: address.to_owned(),
            token: token.to_owned(),
            insecure_http: false,
            worker_id: None,
            worker_type: None,
            labels: BTreeMap::new(),
            slots: 1,
            resources: None,
            handlers: Handlers::default(),
            poll_wait: Duration::from_secs(20),
            grace: Duration::from_secs(30),
            stop_when_cut_off: false,
            backoff: RetryPolicy { base_ms: 250, factor: 2.0, max_backoff_ms: 10_000, ..RetryPolicy::default() },
            mistake: None,
        }
    }

    /// How the worker calls itself. Required, and two processes must not share one.
    pub fn worker_id(mut self, id: &str) -> Self {
        self.worker_id = Some(id.to_owned());
        self
    }

    /// Whether plain HTTP to another machine is fine; `false` unless said. Others on the way can read the token and what
    /// is worked on, and can change both.
    pub fn insecure_http(mut self, allow: bool) -> Self {
        self.insecure_http = allow;
        self
    }

    /// What sort of worker it is, for people: `cpu`, `gpu`, anything.
    pub fn worker_type(mut self, worker_type: &str) -> Self {
        self.worker_type = Some(worker_type.to_owned());
        self
    }

    /// A label that jobs may require. It counts if the worker's token lets workers state labels; those of the token count anyway.
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.insert(name.to_owned(), value.to_owned());
        self
    }

    /// How many tasks it works on at once; 1 unless said.
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// What it has: `{"gpu": 2, "memory_gb": 16}`. Jobs may require at least so much of each number; the rest has no part in
    /// dispatch.
    pub fn resources(mut self, facts: impl Serialize) -> Self {
        match serde_json::to_value(facts) {
            Ok(facts) => self.resources = Some(facts),
            Err(error) => self.note(BuildError::Resources(error)),
        }
        self
    }

    /// What to do with tasks of this type. The handler runs on the async runtime: heavy computation and blocking calls
    /// belong into `tokio::task::spawn_blocking`, where they must watch the cancellation token themselves.
    pub fn task<F, Fut, R>(mut self, task_type: &str, work: F) -> Self
    where
        F: Fn(TaskContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, TaskError>> + Send + 'static,
        R: Serialize,
    {
        match TaskType::new(task_type) {
            Ok(task_type) => {
                if !self.handlers.add(task_type.clone(), handler(work)) {
                    self.note(BuildError::TwoHandlers(task_type));
                }
            }
            Err(error) => self.note(BuildError::Name(error)),
        }
        self
    }

    /// How long a request for tasks waits at the server for the first one; 20 seconds unless said, and between 1 and 60.
    pub fn poll_wait(mut self, wait: Duration) -> Self {
        self.poll_wait = wait.clamp(POLL_WAIT_MIN, POLL_WAIT_MAX);
        self
    }

    /// How long running tasks may take to finish when the worker is asked to stop; 30 seconds unless said.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Whether handlers are stopped when no heartbeat got through for nearly a whole lease: asked to stop a tenth of the
    /// lease before its end, and dropped at its end. `false` unless said: they go on, and what they achieve is reported
    /// late. Say `true` where two workers at the same job do more harm than work that is done again.
    pub fn stop_when_cut_off(mut self, stop: bool) -> Self {
        self.stop_when_cut_off = stop;
        self
    }

    /// How patiently to call a server that is away or busy: pauses grow from about `first` to at most `longest`, each
    /// anywhere between nothing and that. 250 ms and 10 s unless said.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.backoff.base_ms = millis(first);
        self.backoff.max_backoff_ms = millis(longest);
        self
    }

    /// Checks everything that can be checked without the server.
    pub fn build(self) -> Result<Worker, BuildError> {
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        let worker_id = WorkerName::new(&self.worker_id.ok_or(BuildError::NoWorkerId)?)?;
        let task_types = self.handlers.task_types();
        if task_types.is_empty() {
            return Err(BuildError::NoTask);
        }
        if !(1..=SLOTS_MAX).contains(&self.slots) {
            return Err(BuildError::Slots);
        }
        if !self.insecure_http {
            bowline_http::check_encrypted(&self.address)
                .map_err(|why| BuildError::Address(format!("{why}, or insecure_http(true) if you accept that")))?;
        }
        let client = Client::new(&self.address, &self.token).map_err(address)?;
        let registration = RegisterRequest {
            worker_id,
            worker_type: self.worker_type,
            task_types,
            labels: Labels::new(self.labels)?,
            slots: self.slots,
            resources: self.resources,
            sealing: None,
            shares_agent_user: None,
        };
        let link = LinkSettings { registration, poll_wait: self.poll_wait, backoff: self.backoff };
        let settings = Settings { grace: self.grace, stop_when_cut_off: self.stop_when_cut_off };
        Ok(Worker::new(client, link, settings, self.handlers))
    }

    fn note(&mut self, mistake: BuildError) {
        self.mistake.get_or_insert(mistake);
    }
}

fn address(error: BadAddress) -> BuildError {
    BuildError::Address(crate::error::chain(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builder() -> WorkerBuilder {
        Worker::builder("http://127.0.0.1:7420", "token").worker_id("w1")
    }

    async fn nothing(_: TaskContext) -> Result<(), TaskError> {
        Ok(())
    }

    #[test]
    fn plain_http_to_another_machine_must_be_asked_for() {
        let far = || Worker::builder("http://bowline.example", "token").worker_id("w1").task("a", nothing);
        let error = far().build().err().expect("it is refused").to_string();
        assert!(error.contains("plain HTTP") && error.contains("https://"), "{error}");
        assert!(far().insecure_http(true).build().is_ok());
    }

    #[test]
    fn a_worker_that_cannot_work_is_not_built() {
        let why = |builder: WorkerBuilder| builder.build().err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(why(builder()), "a worker needs a handler for one task type at least");
        assert_eq!(why(builder().task("a", nothing).task("a", nothing)), "there are two handlers for task type a");
        assert_eq!(why(builder().task("a", nothing).slots(0)), "slots must be between 1 and 100000");
        assert!(why(builder().task("a b", nothing)).contains("task type"));
        assert!(why(builder().task("a", nothing).worker_id("../x")).contains("worker id"));
        assert!(why(builder().task("a", nothing).label("gpu", "")).contains("label value"));
        assert!(why(Worker::builder("localhost", "t").worker_id("w").task("a", nothing)).contains("`localhost`"));
        assert_eq!(why(Worker::builder("http://x", "t").task("a", nothing)), "a worker needs a worker_id");
        assert_eq!(why(builder().task("a", nothing)), "");
    }
}
