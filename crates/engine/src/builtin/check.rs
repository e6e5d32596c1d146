//! What is wrong with a payload, seen before anybody works on it.
//!
//! A handler of the house may look at a payload when its job is asked for. It says what it would say when the run begins, as
//! far as that can be known without asking anybody else. What it cannot know then, it still says when the run begins.

use std::future::Future;
use std::pin::Pin;

use bowline_model::resource::BadSpec;
use bowline_model::{ErrorClass, RunError};
use bowline_store::StoreError;

/// Why a payload cannot be worked on, ever.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", said(.place, .what))]
pub struct BadPayload {
    /// A stable word for it.
    pub code: &'static str,
    /// Where in the payload, such as `headers.x-a`; nothing for the whole of it.
    pub place: String,
    pub what: String,
}

fn said(place: &str, what: &str) -> String {
    if place.is_empty() { format!("payload: {what}") } else { format!("{place}: {what}") }
}

impl BadPayload {
    pub const VALIDATION: &'static str = "VALIDATION_ERROR";
    pub const DENIED: &'static str = "EGRESS_DENIED";

    /// Something that is not what it must be.
    pub fn wrong(place: impl Into<String>, what: impl std::fmt::Display) -> Self {
        Self { code: Self::VALIDATION, place: place.into(), what: what.to_string() }
    }

    /// Somewhere the tenant may not go.
    pub fn denied(place: impl Into<String>, what: impl std::fmt::Display) -> Self {
        Self { code: Self::DENIED, place: place.into(), what: what.to_string() }
    }
}

/// The same, found when the run begins. Trying again does not help.
impl From<BadPayload> for RunError {
    fn from(bad: BadPayload) -> Self {
        Self::new(ErrorClass::Permanent, format!("{}: {bad}", bad.code))
    }
}

/// The same, as a field of something that somebody stores.
impl From<BadPayload> for BadSpec {
    fn from(bad: BadPayload) -> Self {
        let path = if bad.place.is_empty() { "payload".to_owned() } else { format!("payload.{}", bad.place) };
        let what = if bad.code == BadPayload::VALIDATION { bad.what } else { format!("{}: {}", bad.code, bad.what) };
        Self::at(path, what)
    }
}

/// What a look at a payload came to; or why nobody could look.
pub type Checked = Result<Result<(), BadPayload>, StoreError>;
pub type CheckFuture<'a> = Pin<Box<dyn Future<Output = Checked> + Send + 'a>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_with_its_place_and_unless_it_is_plain_with_its_code() {
        for (bad, text, path, what) in [
            (BadPayload::wrong("", "not JSON"), "payload: not JSON", "payload", "not JSON"),
            (BadPayload::wrong("headers.x-a", "a text"), "headers.x-a: a text", "payload.headers.x-a", "a text"),
            (BadPayload::denied("url", "closed"), "url: closed", "payload.url", "EGRESS_DENIED: closed"),
        ] {
            assert_eq!(bad.to_string(), text);
            let error = RunError::from(bad.clone());
            assert_eq!((error.class, error.message), (ErrorClass::Permanent, format!("{}: {text}", bad.code)));
            assert_eq!(BadSpec::from(bad), BadSpec::at(path, what));
        }
    }
}
