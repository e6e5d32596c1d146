//! `log`: a line for people who look at a run later.

use bowline_model::RunError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::fields::Text;
use super::{Building, NodeType};
use crate::expression::Insert;
use crate::node::{Done, Next, Node, Visit};

#[derive(Debug)]
pub(super) struct Log {
    message: Text,
    level: Level,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// What to say. A text with places.
    message: String,
    #[serde(default)]
    level: Level,
}

/// How much it matters.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Level {
    Debug,
    #[default]
    Info,
    Warn,
    Error,
}

impl NodeType for Log {
    const TYPE: &'static str = "log";
    const ABOUT: &'static str = "Says something in the events of the run.";
    type Config = Config;

    fn build(config: Config, building: &mut Building<'_>) -> Box<dyn Node> {
        Box::new(Self { message: building.text("/message", &config.message), level: config.level })
    }
}

impl Node for Log {
    fn enter(&self, visit: Visit<'_>) -> Result<Next, RunError> {
        let message = self.message.text(visit.context, Insert::Text)?;
        Ok(Done::with(json!({"message": message, "level": self.level})))
    }
}
