//! `rabbitmq_publish`: a message to a broker, confirmed by it.

use bowline_model::{Labels, ResourceName, RunError, TaskType};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Building;
use super::calling::{Caller, CallerType};
use super::fields::{Text, Tree};
use crate::expression::Insert;
use crate::node::{Call, CallWhat, Visit};

const TIMEOUT_MS: u64 = 30_000;

#[derive(Debug)]
pub(super) struct RabbitmqPublish {
    task_type: TaskType,
    broker: ResourceName,
    exchange: Text,
    routing_key: Text,
    body: Tree,
    headers: Tree,
    properties: Tree,
    mandatory: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// The resource of kind `rabbitmq` that says where the broker is.
    broker: ResourceName,
    /// The exchange; the default one unless given. A text with places.
    #[serde(default)]
    exchange: String,
    /// A text with places. For the default exchange it is the name of a queue.
    #[serde(default)]
    routing_key: String,
    /// The message: any JSON, with places in its texts.
    body: Value,
    /// Headers of the message, by name. Values can have places.
    #[serde(default)]
    headers: Map<String, Value>,
    /// Properties of the message, such as `content_type` or `correlation_id`. Values can have places.
    #[serde(default)]
    properties: Map<String, Value>,
    /// A message that no queue takes is a failure.
    #[serde(default)]
    mandatory: bool,
}

impl CallerType for RabbitmqPublish {
    const TYPE: &'static str = "rabbitmq_publish";
    const ABOUT: &'static str = "Publishes a message, and is done when the broker has confirmed it.";
    type Config = Config;

    fn build(config: Config, building: &mut Building<'_>) -> Self {
        if config.exchange.is_empty() && config.routing_key.is_empty() {
            building.mistake("/routing_key", "give an exchange or a routing key; without both it goes nowhere");
        }
        Self {
            task_type: TaskType::new(Self::TYPE).expect("a plain word names a type of task"),
            broker: config.broker,
            exchange: building.text("/exchange", &config.exchange),
            routing_key: building.text("/routing_key", &config.routing_key),
            body: building.tree("/body", &config.body),
            headers: building.tree("/headers", &Value::Object(config.headers)),
            properties: building.tree("/properties", &Value::Object(config.properties)),
            mandatory: config.mandatory,
        }
    }
}

impl Caller for RabbitmqPublish {
    fn call(&self, visit: Visit<'_>) -> Result<Call, RunError> {
        let context = visit.context;
        let payload = json!({
            "broker": self.broker,
            "exchange": self.exchange.text(context, Insert::Text)?,
            "routing_key": self.routing_key.text(context, Insert::Text)?,
            "body": self.body.value(context)?,
            "headers": self.headers.value(context)?,
            "properties": self.properties.value(context)?,
            "mandatory": self.mandatory,
        });
        let task_type = self.task_type.clone();
        Ok(Call {
            what: CallWhat::Task { task_type, payload, lane: None, labels: Labels::default(), priority: None },
            policy: visit.policy.clone(),
            timeout_ms: TIMEOUT_MS,
            deadline_ms: None,
        })
    }
}
