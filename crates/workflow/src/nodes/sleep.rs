//! `sleep`: nothing happens for a while, which may be years.

use bowline_model::RunError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::calling::unexpected;
use super::fields::{Text, failure};
use super::span::{MILLIS_MAX, Span, check_moment, later};
use super::{Building, NodeType};
use crate::expression::Insert;
use crate::node::{Answer, Done, Next, Node, Visit, Wait};

#[derive(Debug)]
pub(super) enum Sleep {
    For(Span),
    Until(Text),
}

/// One of the three.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// How long, in milliseconds.
    #[serde(default)]
    duration_ms: Option<u64>,
    /// How long, such as `90s`, `5m`, `1h30m` or `30d`. A text with places.
    #[serde(default)]
    duration: Option<String>,
    /// Until when, such as `2026-01-03T00:00:00Z`. A text with places.
    #[serde(default)]
    until: Option<String>,
}

impl NodeType for Sleep {
    const TYPE: &'static str = "sleep";
    const ABOUT: &'static str = "Waits for a length of time or until a moment, up to ten years.";
    type Config = Config;

    fn build(config: Config, building: &mut Building<'_>) -> Box<dyn Node> {
        let given = [config.duration_ms.is_some(), config.duration.is_some(), config.until.is_some()];
        if given.into_iter().filter(|given| *given).count() != 1 {
            building.mistake("", "give one of `duration_ms`, `duration` and `until`");
        } else if let Some(until) = &config.until {
            let until = building.text("/until", until);
            if let Some(Err(what)) = until.as_literal().map(check_moment) {
                building.mistake("/until", what);
            }
            return Box::new(Self::Until(until));
        }
        let (millis, text) = (("/duration_ms", config.duration_ms), ("/duration", config.duration.as_deref()));
        Box::new(Self::For(Span::build(millis, text, building).unwrap_or(Span::Millis(0))))
    }
}

impl Node for Sleep {
    fn enter(&self, visit: Visit<'_>) -> Result<Next, RunError> {
        let until = match self {
            Self::For(span) => later(visit.now, span.millis(visit.context)?),
            Self::Until(text) => {
                let text = text.text(visit.context, Insert::Text)?;
                text.parse().map_err(|error| failure(format!("until: {error}")))?
            }
        };
        if until > later(visit.now, MILLIS_MAX) {
            return Err(failure("until: this is more than ten years away"));
        }
        if until <= visit.now {
            return Ok(Done::with(json!({"slept_until": visit.now})));
        }
        Ok(Next::Wait(Wait::Until(until)))
    }

    fn answered(&self, visit: Visit<'_>, answer: Answer) -> Result<Next, RunError> {
        match answer {
            Answer::Due => Ok(Done::with(json!({"slept_until": visit.now}))),
            other => Err(unexpected(&other, "a time")),
        }
    }
}
