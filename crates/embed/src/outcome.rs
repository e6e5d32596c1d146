//! How a run ended.

use bowline_model::{JobStatus, RunError};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Error;

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// `Succeeded`, `Failed`, `Canceled` or `Error`.
    pub status: JobStatus,
    /// What it left behind: the data of a blueprint, the result of a task. Nothing, unless it succeeded.
    pub result: Value,
    /// Why it failed, if it did.
    pub error: Option<RunError>,
}

impl Outcome {
    /// Whether it ended well.
    pub fn succeeded(&self) -> bool {
        self.status == JobStatus::Succeeded
    }

    /// What it left behind, typed; or why there is nothing.
    pub fn data<T: DeserializeOwned>(self) -> Result<T, Error> {
        if !self.succeeded() {
            return Err(Error::NotSucceeded { status: self.status, error: self.error });
        }
        serde_path_to_error::deserialize(self.result)
            .map_err(|error| Error::Data { path: error.path().to_string(), what: error.inner().to_string() })
    }
}
