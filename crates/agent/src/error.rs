//! Why a worker stopped, other than because it was asked to.

use std::error::Error;
use std::fmt::Write as _;

use bowline_model::{RunId, WorkerName};

use crate::server::client::Refusal;

/// What ends [`Worker::run`](crate::Worker::run) without success.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// Trying again would bring the same answer: a wrong token, a name that belongs to another token, a bad request.
    #[error("the server did not let worker {worker} register: {refusal}")]
    NotRegistered { worker: WorkerName, refusal: Refusal },
    #[error("the server speaks protocol {server}, this worker speaks {worker}")]
    OtherProtocol { server: u32, worker: u32 },
    /// The token was revoked or has expired while the worker was at work.
    #[error("the server no longer accepts worker {worker}: {refusal}")]
    Unauthorized { worker: WorkerName, refusal: Refusal },
    /// The worker had to leave before the server had heard how these runs ended.
    #[error("{} results could not be delivered before the worker had to leave", runs.len())]
    Undelivered { runs: Vec<RunId> },
}

/// An error with everything that led to it, in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // Writing to a string does not fail.
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}
