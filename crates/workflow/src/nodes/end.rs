//! `end`: the whole run ends here, and this is its output.

use bowline_model::RunError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::fields::{Flag, FlagConfig, Text, Tree};
use super::{Building, NodeType};
use crate::expression::Insert;
use crate::node::{Done, Exit, Next, Node, Ports, Shape, Visit};

#[derive(Debug)]
pub(super) struct End {
    output: Tree,
    failed: Flag,
    message: Option<Text>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// The output of the run: any JSON, with places in its texts.
    #[serde(default)]
    output: Value,
    /// Whether the run has failed.
    #[serde(default = "no")]
    failed: FlagConfig,
    /// Why it ended so. It becomes `message` in the output.
    #[serde(default)]
    message: Option<String>,
}

fn no() -> FlagConfig {
    FlagConfig::Fixed(false)
}

impl NodeType for End {
    const TYPE: &'static str = "end";
    const ABOUT: &'static str = "Ends the whole run, well or badly, and says what its output is.";
    const PORTS: &'static [&'static str] = &[];
    type Config = Config;

    fn build(config: Config, building: &mut Building<'_>) -> Box<dyn Node> {
        Box::new(Self {
            output: building.tree("/output", &config.output),
            failed: Flag::build("/failed", &config.failed, building),
            message: building.maybe_text("/message", config.message.as_deref()),
        })
    }
}

impl Node for End {
    fn enter(&self, visit: Visit<'_>) -> Result<Next, RunError> {
        let mut output = self.output.value(visit.context)?.into_owned();
        if let Some(message) = &self.message {
            let message = message.text(visit.context, Insert::Text)?;
            let mut fields = match output {
                Value::Object(fields) => fields,
                Value::Null => Map::new(),
                other => Map::from_iter([("output".to_owned(), other)]),
            };
            fields.insert("message".to_owned(), message.into());
            output = Value::Object(fields);
        }
        let failed = self.failed.holds(visit.context)?;
        Ok(Next::Done(Done { output, exit: Exit::End { failed }, set: Vec::new() }))
    }

    fn ports(&self) -> Ports {
        Ports::None
    }

    fn shape(&self) -> Shape {
        Shape::End
    }
}
