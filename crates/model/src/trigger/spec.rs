//! What a resource of kind `trigger` says: which queue is read, and what each of its messages starts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::name::ResourceName;
use crate::resource::{BadSpec, Checks};
use crate::start::StartSpec;

/// Something that every message of a queue starts, once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TriggerSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where the messages come from.
    pub rabbitmq: QueueSource,
    /// What is started. The message is added to it as `message`: to the payload of a task, the parameters of a command, the
    /// input of a workflow.
    pub start: StartSpec,
    /// A trigger that is not enabled reads nothing; its messages wait in the queue.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// What becomes of a message that can never start anything.
    #[serde(default)]
    pub on_refused: OnRefused,
}

/// A queue of a RabbitMQ broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueSource {
    /// The name of a resource of kind `rabbitmq`.
    pub broker: ResourceName,
    /// It must be there; it is not made.
    #[schemars(length(min = 1, max = 255))]
    pub queue: String,
    /// How many messages each server may have in hand at once.
    #[serde(default = "prefetch")]
    #[schemars(range(min = 1, max = 1000))]
    pub prefetch: u16,
}

/// What becomes of a message that can never start anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnRefused {
    /// It goes to the dead letters of its queue, or is gone if the queue has none.
    #[default]
    Reject,
    /// It goes back to its queue and comes again, until somebody has put right what is wrong.
    Requeue,
}

const fn yes() -> bool {
    true
}

const fn prefetch() -> u16 {
    50
}

const DESCRIPTION_MAX: usize = 1_000;
const PREFETCH_MAX: u16 = 1_000;
/// AMQP has no longer names.
const QUEUE_MAX: usize = 255;

impl TriggerSpec {
    /// Under which name a message comes to what it starts.
    pub const FIELD: &str = "message";

    /// Whether its parts fit together. Whether the things it names exist is for others to find out.
    pub fn check(&self) -> Result<(), BadSpec> {
        let mut checks = Checks::default();
        let fits = self.description.as_ref().is_none_or(|text| text.len() <= DESCRIPTION_MAX);
        checks.holds(fits, "description", format!("has at most {DESCRIPTION_MAX} bytes"));
        let queue = &self.rabbitmq.queue;
        checks.holds(
            !queue.is_empty() && queue.len() <= QUEUE_MAX && !queue.chars().any(char::is_control),
            "rabbitmq.queue",
            format!("must have between 1 and {QUEUE_MAX} bytes, without control characters"),
        );
        let fits = (1..=PREFETCH_MAX).contains(&self.rabbitmq.prefetch);
        checks.holds(fits, "rabbitmq.prefetch", format!("must be between 1 and {PREFETCH_MAX}"));
        checks.add(self.start.check().map_err(|bad| bad.under("start")).and_then(|()| self.check_room()));
        checks.done()
    }

    /// Whether there is room for the message, and nothing of it is there already.
    fn check_room(&self) -> Result<(), BadSpec> {
        let (place, given) = match &self.start {
            StartSpec::Task(task) => {
                let payload = task.payload.as_ref().map(|payload| serde_json::from_str(payload.as_str()));
                let payload = payload.transpose().map_err(|e| BadSpec::at("start.payload", e.to_string()))?;
                ("payload", payload.unwrap_or(Value::Null))
            }
            StartSpec::Command(command) => ("params", Value::Object(command.params.clone())),
            StartSpec::Workflow(workflow) => (workflow.given_field(), workflow.input_value()?),
        };
        match given {
            Value::Null => Ok(()),
            Value::Object(fields) if !fields.contains_key(Self::FIELD) => Ok(()),
            Value::Object(_) => {
                let place = format!("start.{place}.{}", Self::FIELD);
                Err(BadSpec::at(place, "this is where the message goes"))
            }
            _ => Err(BadSpec::at(format!("start.{place}"), "must be an object, because the message is added to it")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::{ResourceKind, Spec};

    fn read(value: Value) -> Result<Spec, BadSpec> {
        let spec = Spec::from_value(ResourceKind::Trigger, value)?;
        spec.check()?;
        Ok(spec)
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let spec = read(json!({"rabbitmq": {"broker": "mq", "queue": "orders"}, "start": {"workflow": "ship"}}));
        let text = r#"{"rabbitmq":{"broker":"mq","queue":"orders","prefetch":50},"start":{"workflow":"ship"},"enabled":true,"on_refused":"reject"}"#;
        let spec = spec.expect("it is good");
        assert_eq!(spec.canonical(), text);
        assert_eq!(read(serde_json::from_str(text).expect("JSON")), Ok(spec));
    }

    #[test]
    fn what_does_not_fit_is_named_by_its_place() {
        let good = json!({"rabbitmq": {"broker": "mq", "queue": "orders"}, "start": {"workflow": "ship"}});
        for (field, value, path) in [
            ("rabbitmq", json!({"broker": "mq"}), "rabbitmq"),
            ("rabbitmq", json!({"broker": "no name", "queue": "q"}), "rabbitmq.broker"),
            ("rabbitmq", json!({"broker": "mq", "queue": ""}), "rabbitmq.queue"),
            ("rabbitmq", json!({"broker": "mq", "queue": "q".repeat(256)}), "rabbitmq.queue"),
            ("rabbitmq", json!({"broker": "mq", "queue": "q", "prefetch": 0}), "rabbitmq.prefetch"),
            ("rabbitmq", json!({"broker": "mq", "queue": "q", "prefetch": 1001}), "rabbitmq.prefetch"),
            ("rabbitmq", json!({"broker": "mq", "queue": "q", "ack": true}), "rabbitmq.ack"),
            ("on_refused", json!("drop"), "on_refused"),
            ("start", json!({"type": "echo", "priority": 200}), "start.priority"),
            ("start", json!({"type": "echo", "payload": [1]}), "start.payload"),
            ("start", json!({"type": "echo", "payload": {"message": 1}}), "start.payload.message"),
            ("start", json!({"workflow": "ship", "input": {"message": {}}}), "start.input.message"),
            ("start", json!({"workflow": "ship", "input": 7}), "start.input"),
            ("start", json!({"blueprint": "ship", "data": {"message": {}}}), "start.data.message"),
            ("start", json!({"blueprint": "ship", "data": 7}), "start.data"),
            ("start", json!({"command": "c", "selector": "all", "params": {"message": null}}), "start.params.message"),
            ("enable", json!(true), "enable"),
        ] {
            let mut spec = good.clone();
            spec[field] = value.clone();
            let error = read(spec).expect_err("it is refused");
            assert_eq!(error.path, path, "{value}: {error}");
        }
    }
}
