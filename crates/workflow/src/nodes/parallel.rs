//! `parallel`: every edge is taken at once.

use bowline_model::RunError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Building, NodeType};
use crate::node::{Done, Next, Node, Shape, Visit};

#[derive(Debug)]
pub(super) struct Parallel;

/// Nothing to say: the edges say it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {}

impl NodeType for Parallel {
    const TYPE: &'static str = "parallel";
    const ABOUT: &'static str = "Takes every edge that leaves it at once. A `join` brings the paths together again.";
    type Config = Config;

    fn build(_: Config, _: &mut Building<'_>) -> Box<dyn Node> {
        Box::new(Self)
    }
}

impl Node for Parallel {
    fn enter(&self, _: Visit<'_>) -> Result<Next, RunError> {
        Ok(Done::with(json!({})))
    }

    fn shape(&self) -> Shape {
        Shape::Fork
    }
}
