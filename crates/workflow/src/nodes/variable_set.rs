//! `variable_set`: values under names, for everything that comes later.

use std::sync::Arc;

use bowline_model::RunError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::building::key;
use super::fields::{Tree, failure};
use super::{Building, NodeType};
use crate::expression::check_variable_name;
use crate::node::{Done, Exit, Next, Node, Visit};

#[derive(Debug)]
pub(super) struct VariableSet {
    variables: Vec<(Arc<str>, Tree)>,
}

/// Several at once, or one by `name` and `value`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// Values by name: any JSON, with places in its texts. They all see the variables as they were before.
    #[serde(default)]
    variables: Option<Map<String, Value>>,
    /// The name of one variable.
    #[serde(default)]
    name: Option<String>,
    /// Its value: any JSON, with places in its texts.
    #[serde(default, deserialize_with = "given")]
    value: Option<Value>,
}

/// `null` is a value, too.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl NodeType for VariableSet {
    const TYPE: &'static str = "variable_set";
    const ABOUT: &'static str = "Sets variables. The output has them, too.";
    type Config = Config;

    fn build(config: Config, building: &mut Building<'_>) -> Box<dyn Node> {
        let mut variables = Vec::new();
        let mut add = |at_name: &str, at: &str, name: &str, value: &Value, building: &mut Building<'_>| {
            if let Err(error) = check_variable_name(name) {
                building.mistake(at_name, error.message());
            }
            variables.push((Arc::from(name), building.tree(at, value)));
        };
        match (&config.variables, &config.name, &config.value) {
            (Some(values), None, None) if !values.is_empty() => {
                for (name, value) in values {
                    let at = format!("/variables{}", key(name));
                    add(&at, &at, name, value, building);
                }
            }
            (None, Some(name), Some(value)) => add("/name", "/value", name, value, building),
            _ => building.mistake("", "give `variables` with at least one, or `name` and `value`"),
        }
        Box::new(Self { variables })
    }
}

impl Node for VariableSet {
    fn enter(&self, visit: Visit<'_>) -> Result<Next, RunError> {
        let mut output = Map::new();
        let mut set = Vec::with_capacity(self.variables.len());
        // A copy is cheap, and knows what a variable may be.
        let mut after = visit.context.clone();
        for (name, tree) in &self.variables {
            let value = tree.value(visit.context)?.into_owned();
            after
                .set_variable(name, value.clone())
                .map_err(|error| failure(format!("{}: {}", tree.field(), error.message())))?;
            output.insert(name.to_string(), value.clone());
            set.push((name.clone(), value));
        }
        Ok(Next::Done(Done { output: Value::Object(output), exit: Exit::Success, set }))
    }

    fn pinned(&self, output: &Value) -> Result<Done, String> {
        let mut set = Vec::with_capacity(self.variables.len());
        for (name, _) in &self.variables {
            let value =
                output.get(&**name).ok_or_else(|| format!(".{name}: is missing; the node sets this variable"))?;
            set.push((name.clone(), value.clone()));
        }
        Ok(Done { output: output.clone(), exit: Exit::Success, set })
    }
}
