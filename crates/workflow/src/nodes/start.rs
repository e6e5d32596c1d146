//! `start`: where a run begins.

use bowline_model::RunError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Building, NodeType};
use crate::node::{Done, Next, Node, Shape, Visit};

#[derive(Debug)]
pub(super) struct Start;

/// Nothing to say.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {}

impl NodeType for Start {
    const TYPE: &'static str = "start";
    const ABOUT: &'static str = "Where a run begins. Every workflow has one.";
    type Config = Config;

    fn build(_: Config, _: &mut Building<'_>) -> Box<dyn Node> {
        Box::new(Self)
    }
}

impl Node for Start {
    fn enter(&self, _: Visit<'_>) -> Result<Next, RunError> {
        Ok(Done::with(json!({})))
    }

    fn shape(&self) -> Shape {
        Shape::Start
    }
}
