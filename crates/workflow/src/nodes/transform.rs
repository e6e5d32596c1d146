//! `transform`: a value made of other values.

use bowline_model::RunError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::fields::Tree;
use super::{Building, NodeType};
use crate::node::{Done, Next, Node, Visit};

#[derive(Debug)]
pub(super) struct Transform {
    value: Tree,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// The output: any JSON, with places in its texts.
    value: Value,
}

impl NodeType for Transform {
    const TYPE: &'static str = "transform";
    const ABOUT: &'static str = "Makes one value of others. The value is its output.";
    type Config = Config;

    fn build(config: Config, building: &mut Building<'_>) -> Box<dyn Node> {
        Box::new(Self { value: building.tree("/value", &config.value) })
    }
}

impl Node for Transform {
    fn enter(&self, visit: Visit<'_>) -> Result<Next, RunError> {
        Ok(Done::with(self.value.value(visit.context)?.into_owned()))
    }
}
