//! `condition`: one way if something is true, another way if it is not.

use std::sync::Arc;

use bowline_model::RunError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::fields::{Flag, FlagConfig};
use super::{Building, NodeType};
use crate::node::{Done, Exit, Next, Node, Ports, Visit};

#[derive(Debug)]
pub(super) struct Condition {
    expression: Flag,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// What is asked, with or without braces: `{{steps.http_1.output.status_code}} == 200`.
    expression: FlagConfig,
}

impl NodeType for Condition {
    const TYPE: &'static str = "condition";
    const ABOUT: &'static str = "Goes one way if an expression is true and the other way if it is not.";
    const PORTS: &'static [&'static str] = &["true", "false"];
    type Config = Config;

    fn build(config: Config, building: &mut Building<'_>) -> Box<dyn Node> {
        Box::new(Self { expression: Flag::build("/expression", &config.expression, building) })
    }
}

impl Node for Condition {
    fn enter(&self, visit: Visit<'_>) -> Result<Next, RunError> {
        let result = self.expression.holds(visit.context)?;
        let port = Arc::from(if result { "true" } else { "false" });
        Ok(Next::Done(Done { output: json!({"result": result}), exit: Exit::Port(port), set: Vec::new() }))
    }

    fn ports(&self) -> Ports {
        Ports::Named(Self::PORTS.iter().map(|port| Arc::from(*port)).collect())
    }
}
