//! Where inside meets HTTP: a status for machines, a stable code with a help page, a sentence for people.
//!
//! Every refusal of every route is a [`Problem`]; the door turns it into the one error shape, with the request's ids.
//! Codes are explained in docs/errors.md; a test keeps the two in step.

use axum::response::{IntoResponse, Response};
use bowline_store::StoreError;
use hyper::StatusCode;
use serde_json::{Value, json};

/// A refusal.
#[derive(Debug, Clone)]
pub struct Problem {
    pub status: StatusCode,
    pub code: &'static str,
    pub message: String,
    pub details: Value,
    pub retry_after_s: Option<u32>,
}

impl Problem {
    pub fn new(status: StatusCode, code: &'static str, message: impl ToString) -> Self {
        Self { status, code, message: message.to_string(), details: Value::Null, retry_after_s: None }
    }

    #[must_use]
    pub fn with(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    #[must_use]
    pub const fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    pub fn validation(message: impl ToString) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "VALIDATION_ERROR", message)
    }

    pub fn unauthorized(message: impl ToString) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "AUTH_REQUIRED", message)
    }

    pub fn forbidden(message: impl ToString) -> Self {
        Self::new(StatusCode::FORBIDDEN, "FORBIDDEN", message)
    }

    pub fn not_found(code: &'static str, what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, format!("there is no such {what}"))
    }

    pub fn conflict(code: &'static str, message: impl ToString) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    pub fn retry_later(code: &'static str, message: impl ToString) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message).retry_after(1)
    }

    /// The `error` member of the body.
    pub fn body(&self) -> Value {
        json!({"code": self.code, "message": self.message, "details": self.details})
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Unavailable(_) | StoreError::Conflict(_) => {
                tracing::warn!("a request was refused: {error}");
                Self::retry_later("LEDGER_UNAVAILABLE", "the ledger cannot take this now; ask again")
            }
            StoreError::Unknown(_) => {
                tracing::warn!("a request's outcome is unknown: {error}");
                let message = "the ledger did not say whether it stored this; ask again with the same key";
                Self::retry_later("OUTCOME_UNKNOWN", message)
            }
            StoreError::Busy(_) => Self::new(StatusCode::TOO_MANY_REQUESTS, "RATE_LIMITED", &error)
                .with(json!({"of": "tenant"}))
                .retry_after(1),
            StoreError::Quota { quota, used, max } => crate::bounds::exceeded(quota, *used, *max),
            StoreError::Broken(_) => {
                tracing::error!("a request failed: {error}");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL_ERROR", "something is wrong on our side")
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // The door writes the body: only it knows the request's ids.
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}
