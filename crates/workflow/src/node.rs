//! What every sort of node has in common.
//!
//! A node is entered, and says what comes of it: an answer at once, or a wish that somebody else must see to. When the wish
//! has an answer, the node is asked again, with the answer. Nodes are pure: the same context, time and answer give the same
//! result, here and on every server, now and in a replay.

use std::sync::Arc;

use bowline_model::question::AskRule;
use bowline_model::workflow::{NodeId, NodePolicy};
use bowline_model::{ErrorClass, JobId, JobStatus, Labels, Lane, RunError, TaskType, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::expression::{Context, ExpressionError, Reference};

/// What a node knows when it is entered.
#[derive(Debug, Clone, Copy)]
pub struct Visit<'a> {
    pub context: &'a Context,
    pub now: Timestamp,
    /// How often this run has come to this node, from 1.
    pub number: u32,
    pub policy: &'a NodePolicy,
}

/// One node of a definition, with its configuration read and its expressions compiled.
pub trait Node: Send + Sync + std::fmt::Debug {
    /// The node is entered. A failure follows the failure edge.
    fn enter(&self, visit: Visit<'_>) -> Result<Next, RunError>;

    /// What was wished for has come about. Whoever never waits is never asked.
    fn answered(&self, visit: Visit<'_>, answer: Answer) -> Result<Next, RunError> {
        let _ = visit;
        Err(RunError::new(ErrorClass::Handler, format!("this node waits for nothing, but heard {}", answer.word())))
    }

    /// What its expressions name.
    fn references(&self) -> Vec<&Reference> {
        Vec::new()
    }

    /// What it works with, if it waits for nothing: the values that its expressions name, by their paths.
    fn received(&self, context: &Context) -> Value {
        let _ = context;
        Value::Object(Map::new())
    }

    /// The edges that may leave it, apart from `failure` and `always`.
    fn ports(&self) -> Ports {
        Ports::Success
    }

    /// How paths meet and part here.
    fn shape(&self) -> Shape {
        Shape::Plain
    }

    /// What comes of it if somebody has written its output, and it is not carried out. Otherwise what is wrong with that
    /// output, beginning with the place in it.
    fn pinned(&self, output: &Value) -> Result<Done, String> {
        let exit = match (self.shape(), self.ports()) {
            (Shape::Join(_), _) => {
                return Err(": a join says how many paths have come, so it cannot be pinned".to_owned());
            }
            (Shape::End, _) => Exit::End { failed: false },
            (_, Ports::Named(names)) => named_exit(&names, output)?,
            (_, Ports::None | Ports::Success) => Exit::Success,
        };
        Ok(Done { output: output.clone(), exit, set: Vec::new() })
    }

    /// Whether what it waits for is a person's decision.
    fn asks_people(&self) -> bool {
        false
    }

    /// Whether it reaches beyond the context: such nodes have a recorded answer in a replay.
    fn has_effect(&self) -> bool {
        false
    }
}

/// The way that a written output names, as `result`, as `case` or by itself.
fn named_exit(names: &[Arc<str>], output: &Value) -> Result<Exit, String> {
    let field = ["result", "case"].into_iter().find(|field| output.get(field).is_some());
    let says = match field.and_then(|field| output.get(field)).unwrap_or(output) {
        Value::Bool(says) => says.to_string(),
        Value::String(says) => says.clone(),
        _ => String::new(),
    };
    match names.iter().find(|name| ***name == says) {
        Some(name) if **name == *"success" => Ok(Exit::Success),
        Some(name) => Ok(Exit::Port(Arc::clone(name))),
        // Whatever else it says is what was waited for.
        None if names.iter().any(|name| **name == *"success") => Ok(Exit::Success),
        None => {
            let place = field.map(|field| format!(".{field}")).unwrap_or_default();
            let ways: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            Err(format!("{place}: this names no way on; the ways are {}", ways.join(", ")))
        }
    }
}

/// Which edges may leave a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ports {
    /// None: the path ends here.
    None,
    /// `success`.
    Success,
    /// These, by name; `success` may be one of them. Each that has no edge ends the path.
    Named(Vec<Arc<str>>),
}

/// How paths meet and part at a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Where the run begins.
    Start,
    /// The whole run ends here.
    End,
    /// One way out is taken.
    Plain,
    /// Every success edge is taken at once.
    Fork,
    /// Waits until so many of the paths that lead here have come, and goes on once.
    Join(Gather),
}

/// How many paths a join waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gather {
    All,
    Any,
    AtLeast(u32),
}

/// What comes of a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    Done(Done),
    Wait(Wait),
    Failed(Failed),
}

/// A node that is done.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    pub output: Value,
    pub exit: Exit,
    /// Variables it sets, in order.
    pub set: Vec<(Arc<str>, Value)>,
}

impl Done {
    /// Done, with an output, by the success edge.
    pub fn with(output: Value) -> Next {
        Next::Done(Self { output, exit: Exit::Success, set: Vec::new() })
    }
}

/// A node that has failed, and what it can tell all the same to whoever takes over.
#[derive(Debug, Clone, PartialEq)]
pub struct Failed {
    pub error: RunError,
    /// Its output; `error` is added to it.
    pub output: Map<String, Value>,
}

impl Failed {
    /// As the output of a node has it.
    pub(crate) fn into_parts(self) -> (RunError, Value) {
        let Self { error, mut output } = self;
        output.insert("error".to_owned(), json!({"class": error.class, "message": error.message}));
        (error, Value::Object(output))
    }
}

impl From<RunError> for Failed {
    fn from(error: RunError) -> Self {
        Self { error, output: Map::new() }
    }
}

/// Which way a node is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    Success,
    /// The edge with this name.
    Port(Arc<str>),
    /// Straight to another node, as state machines go.
    To(NodeId),
    /// The run ends here: well, or badly.
    End {
        failed: bool,
    },
}

/// What a node waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// A time.
    Until(Timestamp),
    /// A person.
    Approval { title: String, expires_at: Option<Timestamp>, rule: AskRule },
    /// Something that happens elsewhere. The key tells two runs apart that wait for the same thing.
    Event { name: Arc<str>, key: Option<String>, expires_at: Option<Timestamp> },
    /// A job.
    Call(Box<Call>),
    /// A job per item, so many at a time.
    Each { calls: Vec<Call>, concurrency: u32, stop_on_failure: bool },
}

/// A job that a node wishes for. It becomes a child of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    pub what: CallWhat,
    /// What the node says about patience.
    pub policy: NodePolicy,
    /// How long an attempt may take, unless the policy says otherwise.
    pub timeout_ms: u64,
    /// How long all of it may take, from now on: waiting for a worker, and every attempt. Then it is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
}

impl Call {
    /// When nobody waits for its end any more, if it begins now.
    pub(crate) fn due_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.deadline_ms.map(|millis| now.plus_millis(i64::try_from(millis).unwrap_or(i64::MAX)))
    }
}

/// What sort of job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallWhat {
    Task {
        task_type: TaskType,
        payload: Value,
        lane: Option<Lane>,
        labels: Labels,
        priority: Option<i16>,
    },
    /// A command on hosts: the body of a request, as `POST /jobs` takes it.
    Command(Value),
    /// Another workflow, by name; the active version unless one is given.
    Workflow {
        name: String,
        version: Option<u32>,
        input: Value,
    },
    /// A blueprint, by name; the active version unless one is given.
    Blueprint {
        name: String,
        version: Option<u32>,
        data: Value,
    },
}

/// What became of a wish.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The time has come.
    Due,
    /// Nobody came before the time was up.
    Expired,
    Decided {
        approved: bool,
        by: String,
        reason: Option<String>,
    },
    Event(Value),
    Ended(Ended),
    /// Every call has ended, or was not made; in the order of the items.
    Each(Vec<Option<Ended>>),
}

impl Answer {
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Due => "that its time has come",
            Self::Expired => "that nobody came",
            Self::Decided { .. } => "a decision",
            Self::Event(_) => "of an event",
            Self::Ended(_) | Self::Each(_) => "that a job has ended",
        }
    }
}

/// How a job ended that a node had wished for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    pub job: Option<JobId>,
    pub status: JobStatus,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub result: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
}

impl Ended {
    /// Its result; or why there is none, with what is left of it: which job it was, and its result if it has one all the same.
    pub fn into_outcome(self) -> Result<Value, Failed> {
        let (job, result) = (self.job, self.result.clone());
        self.into_result().map_err(|error| {
            let mut output = Map::new();
            if let Some(job) = job {
                output.insert("job_id".to_owned(), json!(job));
            }
            if !result.is_null() {
                output.insert("result".to_owned(), result);
            }
            Failed { error, output }
        })
    }

    /// Its result, or why there is none.
    pub fn into_result(self) -> Result<Value, RunError> {
        match (self.status, self.error) {
            (JobStatus::Succeeded, _) => Ok(self.result),
            (_, Some(error)) => Err(error),
            (status, None) => Err(RunError::new(ErrorClass::Permanent, format!("the job ended as {status}"))),
        }
    }
}

/// An expression that has no value: the same context will never give it one.
impl From<ExpressionError> for RunError {
    fn from(error: ExpressionError) -> Self {
        Self::new(ErrorClass::Permanent, error.to_string())
    }
}
