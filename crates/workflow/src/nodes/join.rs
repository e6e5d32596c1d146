//! `join`: where paths meet that a `parallel` has sent out.

use std::borrow::Cow;

use bowline_model::RunError;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::{Building, NodeType};
use crate::node::{Done, Gather, Next, Node, Shape, Visit};

#[derive(Debug)]
pub(super) struct Join {
    gather: Gather,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// How many of the paths that lead here it waits for.
    #[serde(default = "all")]
    mode: Mode,
}

fn all() -> Mode {
    Mode(Gather::All)
}

/// `all`, `any` or `{at_least: n}`.
#[derive(Debug)]
struct Mode(Gather);

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let at_least = |fields: &serde_json::Map<String, Value>| {
            let number = fields.get("at_least").filter(|_| fields.len() == 1)?.as_u64()?;
            u32::try_from(number).ok().filter(|number| *number > 0)
        };
        let gather = match &value {
            Value::String(word) if word == "all" => Some(Gather::All),
            Value::String(word) if word == "any" => Some(Gather::Any),
            Value::Object(fields) => at_least(fields).map(Gather::AtLeast),
            _ => None,
        };
        gather.map(Self).ok_or_else(|| serde::de::Error::custom("must be `all`, `any` or {at_least: n} with n from 1"))
    }
}

impl JsonSchema for Mode {
    fn schema_name() -> Cow<'static, str> {
        "JoinMode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "`all` (unless said otherwise), `any` or {at_least: n}",
            "oneOf": [
                {"enum": ["all", "any"]},
                {
                    "type": "object",
                    "properties": {"at_least": {"type": "integer", "minimum": 1}},
                    "required": ["at_least"],
                    "additionalProperties": false
                }
            ]
        })
    }
}

impl NodeType for Join {
    const TYPE: &'static str = "join";
    const ABOUT: &'static str = "Waits for paths that lead here, for all of them or for some, and goes on once.";
    type Config = Config;

    fn build(config: Config, _: &mut Building<'_>) -> Box<dyn Node> {
        Box::new(Self { gather: config.mode.0 })
    }
}

impl Node for Join {
    fn enter(&self, _: Visit<'_>) -> Result<Next, RunError> {
        Ok(Done::with(json!({})))
    }

    fn shape(&self) -> Shape {
        Shape::Join(self.gather)
    }
}
