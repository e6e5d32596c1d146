//! What a handler says when it could not do its work.

use std::error::Error;
use std::fmt;

use bowline_model::{ErrorClass, RunError};

use crate::error::chain;

/// A failure, and whether trying again can help.
///
/// Every error becomes a transient one through `?`, with its whole chain as the message. That is why this type does not
/// implement [`Error`] itself, as with `anyhow`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskError(RunError);

impl TaskError {
    /// It may go away by itself. The job is tried again, as its policy allows.
    pub fn transient(message: impl Into<String>) -> Self {
        Self(RunError::new(ErrorClass::Transient, message))
    }

    /// It will fail again the same way. The job is not tried again.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self(RunError::new(ErrorClass::Permanent, message))
    }

    /// Something the handler waited for took too long.
    pub fn timeout(message: impl Into<String>) -> Self {
        Self(RunError::new(ErrorClass::Timeout, message))
    }

    /// The handler stopped because its cancellation token asked it to.
    pub fn stopped() -> Self {
        Self::transient("the handler stopped before its work was done")
    }

    pub fn class(&self) -> ErrorClass {
        self.0.class
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The handler itself is broken, not its work.
    pub(crate) fn handler(message: impl Into<String>) -> Self {
        Self(RunError::new(ErrorClass::Handler, message))
    }

    pub(crate) fn into_run_error(self) -> RunError {
        self.0
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl<E: Error> From<E> for TaskError {
    fn from(error: E) -> Self {
        Self::transient(chain(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_error_becomes_a_transient_one_with_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("the disk is slow")]
        struct Slow(#[source] std::fmt::Error);

        fn work() -> Result<(), TaskError> {
            Err(Slow(std::fmt::Error))?
        }
        let error = work().unwrap_err();
        assert_eq!(error.class(), ErrorClass::Transient);
        assert!(error.message().starts_with("the disk is slow: "), "{error}");
    }
}
