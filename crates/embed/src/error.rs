//! What can go wrong: here, and in handlers.

use std::fmt;

use bowline_engine::flow::{FlowError, LookError};
use bowline_model::{ErrorClass, JobId, JobStatus, RunError};
use bowline_store::StoreError;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A blueprint has mistakes, all of which are in the text.
    #[error("blueprint {name}: {mistakes}")]
    Blueprint { name: String, mistakes: String },
    /// A name that cannot be one.
    #[error("{0}")]
    Name(#[from] bowline_model::name::NotAName),
    /// Two handlers for the same sort of task.
    #[error("there are two handlers for {0}")]
    Twice(String),
    /// Data that cannot be written as JSON, or read as what was asked for.
    #[error("the data do not fit at {path}: {what}")]
    Data { path: String, what: String },
    /// A run did not begin.
    #[error("the run did not begin")]
    Start(#[source] FlowError),
    /// There is no such job.
    #[error("there is no job {0}")]
    NotFound(JobId),
    /// Nobody waits for this decision.
    #[error("job {0} does not wait for an approval")]
    NobodyWaits(JobId),
    /// The decision does not count.
    #[error("the decision about job {job} does not count: {why}")]
    Refused { job: JobId, why: String },
    /// The job is over already.
    #[error("job {job} is {status} already")]
    Finished { job: JobId, status: JobStatus },
    /// The run did not end well, so it has no data.
    #[error("the run is {status}{}", because(.error.as_ref()))]
    NotSucceeded { status: JobStatus, error: Option<RunError> },
    /// The ledger did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something else: the directory, a thread.
    #[error("Bowline could not be opened")]
    Open(#[source] anyhow::Error),
    /// A run could not be looked at.
    #[error(transparent)]
    Look(#[from] LookError),
}

fn because(error: Option<&RunError>) -> String {
    error.map(|error| format!(": {}", error.message)).unwrap_or_default()
}

/// Why a handler did not do its work, and whether trying again may help.
///
/// Every error becomes one with `?`, and is tried again:
///
/// ```
/// use bowline_embed::Failure;
///
/// fn read(text: &str) -> Result<u32, Failure> {
///     if text.is_empty() {
///         return Err(Failure::permanent("there is nothing to read"));
///     }
///     Ok(text.parse()?)
/// }
/// assert!(read("x").unwrap_err().may_be_retried());
/// assert!(!read("").unwrap_err().may_be_retried());
/// ```
pub struct Failure(pub(crate) RunError);

impl Failure {
    /// It may go away by itself.
    pub fn transient(message: impl Into<String>) -> Self {
        Self(RunError::new(ErrorClass::Transient, message))
    }

    /// It will fail again in the same way, so it is not tried again.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self(RunError::new(ErrorClass::Permanent, message))
    }

    /// Whether another attempt may follow.
    pub fn may_be_retried(&self) -> bool {
        self.0.class.is_retriable()
    }

    /// What went wrong.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.class.as_str(), self.0.message)
    }
}

/// Not an error itself, so that every error can become one.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            message.push_str(": ");
            message.push_str(&inner.to_string());
            cause = inner.source();
        }
        Self::transient(message)
    }
}
