//! `rabbitmq_publish`: a message to a RabbitMQ broker, done when the broker has confirmed it.
//!
//! Enters: the payload, with the name of a broker, which is a resource of kind `rabbitmq`. Leaves: `confirmed` and the message
//! id, or a failure that says whether trying again can help. The message id is the job's id unless the payload names one, so
//! every attempt at the job publishes the same id, and whoever reads the queue can know a second copy by it.
//!
//! A broker is looked up anew for every run, so a new version of the resource or another password counts at once. Connections
//! are kept, by tenant and name, for as long as they are used.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_amqp::{AmqpError, Message, MessageProperties, Published, Publisher};
use bowline_connect::egress::TenantRules;
use bowline_model::trace::traceparent;
use bowline_model::{ErrorClass, ResourceName, RunError, TaskType, TenantId};
use bowline_store::Ledger;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::check::{BadPayload, CheckFuture};
use super::handlers::{Handler, HandlerFuture, Task};
use crate::brokers::Brokers;
use crate::secrets::Secrets;

/// How long a broker may take to confirm. The run's own time limit ends it too.
const CONFIRM_LIMIT: Duration = Duration::from_secs(30);
/// A connection that nobody used for so long is given up.
const UNUSED_MAX: Duration = Duration::from_secs(600);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    broker: ResourceName,
    #[serde(default)]
    exchange: String,
    routing_key: String,
    /// A text is published as it reads, everything else as the JSON that was written.
    body: Box<RawValue>,
    #[serde(default)]
    headers: Map<String, Value>,
    #[serde(default)]
    properties: WishedProperties,
    #[serde(default = "yes")]
    mandatory: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WishedProperties {
    message_id: Option<String>,
    content_type: Option<String>,
    correlation_id: Option<String>,
    expiration_ms: Option<u64>,
    priority: Option<u8>,
    r#type: Option<String>,
}

const fn yes() -> bool {
    true
}

/// The handler of `rabbitmq_publish`.
#[derive(Debug, Clone)]
pub struct RabbitmqPublish(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    brokers: Brokers,
    publishers: Mutex<HashMap<(TenantId, ResourceName), Kept>>,
}

#[derive(Debug)]
struct Kept {
    publisher: Arc<Publisher>,
    used_at: Instant,
}

impl RabbitmqPublish {
    pub const TASK_TYPE: &str = "rabbitmq_publish";

    pub fn task_type() -> TaskType {
        TaskType::new(Self::TASK_TYPE).expect("a plain word names a type of task")
    }

    pub fn new(ledger: Arc<dyn Ledger>, secrets: Arc<Secrets>, rules: TenantRules) -> Self {
        Self(Arc::new(Inner { brokers: Brokers::new(ledger, secrets, rules), publishers: Mutex::default() }))
    }
}

impl Handler for RabbitmqPublish {
    fn handle(&self, task: Task) -> HandlerFuture {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            tokio::select! {
                biased;
                () = task.stop.cancelled() => Ok(None),
                done = inner.publish(&task) => done.map(Some),
            }
        })
    }

    /// Whether there is such a broker is asked when the run begins: it may come later than the job.
    fn check<'a>(&'a self, _: TenantId, payload: &'a str) -> CheckFuture<'a> {
        let checked = Wish::read(payload).and_then(|wish| message(wish, || "some-job".to_owned())).map(drop);
        Box::pin(std::future::ready(Ok(checked)))
    }
}

impl Inner {
    async fn publish(&self, task: &Task) -> Result<Arc<str>, RunError> {
        let wish = Wish::read(&task.payload)?;
        let (name, mut message) = (wish.broker.clone(), message(wish, || task.job.to_string())?);
        let trace = traceparent(task.trace_id.as_deref(), task.job, task.run);
        message.properties.headers.entry("traceparent").or_insert_with(|| trace.into());
        let publisher = self.publisher(task.tenant, &name).await?;
        match publisher.publish(&message, CONFIRM_LIMIT).await {
            Ok(Published::Confirmed) => {
                Ok(json!({"confirmed": true, "message_id": message.properties.message_id}).to_string().into())
            }
            Ok(Published::Unroutable { code, text }) => Err(permanent(format!(
                "no queue takes it: {code} {text} (exchange `{}`, routing key `{}`)",
                message.exchange, message.routing_key
            ))),
            Err(error) => Err(RunError::new(class_of(&error), format!("broker {name}: {error}"))),
        }
    }

    /// The publisher for a broker as it is described now: the one we have, unless it goes elsewhere or as somebody else.
    async fn publisher(&self, tenant: TenantId, name: &ResourceName) -> Result<Arc<Publisher>, RunError> {
        let broker = self.brokers.find(tenant, name).await?;
        let mut kept = self.publishers.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        kept.retain(|_, kept| now.duration_since(kept.used_at) < UNUSED_MAX);
        let key = (tenant, name.clone());
        if let Some(kept) = kept.get_mut(&key)
            && kept.publisher.broker().is_same(&broker)
        {
            kept.used_at = now;
            return Ok(Arc::clone(&kept.publisher));
        }
        let publisher = Arc::new(Publisher::new(broker));
        kept.insert(key, Kept { publisher: Arc::clone(&publisher), used_at: now });
        Ok(publisher)
    }
}

impl Wish {
    /// Reads a payload, or says which field is wrong.
    fn read(payload: &str) -> Result<Self, BadPayload> {
        let mut reader = serde_json::Deserializer::from_str(payload);
        let read = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let path = error.path().to_string();
            BadPayload::wrong(if path == "." { "" } else { &path }, error.into_inner())
        })?;
        reader.end().map_err(|error| BadPayload::wrong("", error))?;
        Ok(read)
    }
}

/// The message, with an id that every attempt at the job has in common unless the payload names one.
fn message(wish: Wish, job: impl FnOnce() -> String) -> Result<Message, BadPayload> {
    let written = wish.body.get();
    let (body, sort) = if written.starts_with('"') {
        let text: String = serde_json::from_str(written).map_err(|error| BadPayload::wrong("body", error))?;
        (text.into_bytes(), "text/plain; charset=utf-8")
    } else {
        (written.as_bytes().to_vec(), "application/json")
    };
    let WishedProperties { message_id, content_type, correlation_id, expiration_ms, priority, r#type } =
        wish.properties;
    let message_id = message_id.unwrap_or_else(job);
    if message_id.is_empty() {
        return Err(BadPayload::wrong("properties.message_id", "must not be empty"));
    }
    let properties = MessageProperties {
        content_type: Some(content_type.unwrap_or_else(|| sort.to_owned())),
        correlation_id,
        expiration_ms,
        priority,
        kind: r#type,
        headers: wish.headers,
        ..MessageProperties::new(message_id)
    };
    let (exchange, routing_key, mandatory) = (wish.exchange, wish.routing_key, wish.mandatory);
    let message = Message { exchange, routing_key, properties, body, mandatory };
    message.check().map_err(|error| match error {
        AmqpError::BadMessage { path, what } => BadPayload::wrong(path, what),
        other => BadPayload::wrong("", other),
    })?;
    Ok(message)
}

fn permanent(message: String) -> RunError {
    RunError::new(ErrorClass::Permanent, message)
}

fn class_of(error: &AmqpError) -> ErrorClass {
    if error.is_transient() { ErrorClass::Transient } else { ErrorClass::Permanent }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(payload: &str) -> Result<Message, BadPayload> {
        message(Wish::read(payload)?, || Task::with(payload).job.to_string())
    }

    #[test]
    fn a_body_is_published_as_it_was_written() {
        let text = made(r#"{"broker":"b","routing_key":"q","body":"grüße\n"}"#).unwrap();
        assert_eq!(text.body, "grüße\n".as_bytes());
        assert_eq!(text.properties.content_type.as_deref(), Some("text/plain; charset=utf-8"));
        assert_eq!(text.properties.message_id, Task::with("").job.to_string(), "the same for every attempt");
        assert!(text.mandatory && text.properties.durable && text.exchange.is_empty());
        let json =
            made(r#"{"broker":"b","routing_key":"q","body":{"n": 1.10,"big":12345678901234567890123}}"#).unwrap();
        assert_eq!(json.body, br#"{"n": 1.10,"big":12345678901234567890123}"#);
        assert_eq!(json.properties.content_type.as_deref(), Some("application/json"));
        let own = r#"{"broker":"b","routing_key":"q","body":null,"mandatory":false,"properties":{"message_id":"m","type":"t","priority":3}}"#;
        let own = made(own).unwrap();
        assert_eq!((own.body.as_slice(), own.mandatory), (b"null".as_slice(), false));
        assert_eq!((own.properties.message_id.as_str(), own.properties.kind.as_deref()), ("m", Some("t")));
    }

    #[test]
    fn a_message_has_every_property_that_was_written() {
        let properties = json!({
            "message_id": "m", "content_type": "text/csv", "correlation_id": "c", "expiration_ms": 60_000,
            "priority": 3, "type": "t",
        });
        let payload = json!({
            "broker": "b", "exchange": "x", "routing_key": "q", "body": "1,2", "headers": {"x-a": "1"},
            "properties": properties,
        });
        let Message { exchange, routing_key, properties, .. } = made(&payload.to_string()).unwrap();
        assert_eq!((exchange.as_str(), routing_key.as_str()), ("x", "q"));
        assert_eq!((properties.message_id.as_str(), properties.content_type.as_deref()), ("m", Some("text/csv")));
        assert_eq!((properties.correlation_id.as_deref(), properties.kind.as_deref()), (Some("c"), Some("t")));
        assert_eq!((properties.expiration_ms, properties.priority), (Some(60_000), Some(3)));
        assert_eq!(Value::Object(properties.headers), json!({"x-a": "1"}));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_place() {
        let with = |fields: &str| format!(r#"{{"broker":"b","routing_key":"q","body":1{fields}}}"#);
        let long = "k".repeat(256);
        for (payload, place, part) in [
            (r#"{"routing_key":"q","body":1}"#.to_owned(), "", "missing field `broker`"),
            (r#"{"broker":"b","body":1}"#.to_owned(), "", "missing field `routing_key`"),
            (r#"{"broker":"b","routing_key":"q"}"#.to_owned(), "", "missing field `body`"),
            (with(r#","mandatry":true"#), "mandatry", "unknown field `mandatry`"),
            (with(r#","properties":{"foo":1}"#), "properties.foo", "unknown field `foo`"),
            (with(r#","properties":{"priority":999}"#), "properties.priority", "999"),
            (with(r#","properties":{"message_id":""}"#), "properties.message_id", "must not be empty"),
            (with(r#","properties":{"expiration_ms":4294967296}"#), "properties.expiration_ms", "at most"),
            (with(&format!(r#","properties":{{"type":"{long}"}}"#)), "properties.type", "255"),
            (with(&format!(r#","exchange":"{long}""#)), "exchange", "255"),
            (format!(r#"{{"broker":"b","routing_key":"{long}","body":1}}"#), "routing_key", "255"),
            (with(r#","headers":{"n":18446744073709551615}"#), "headers.n", "63 bits"),
            (r#"{"broker":"no name","routing_key":"q","body":1}"#.to_owned(), "broker", "resource"),
            ("null".to_owned(), "", "invalid type"),
        ] {
            let bad = made(&payload).expect_err(&payload);
            assert_eq!(bad.place, place, "{payload}: {bad}");
            assert!(bad.what.contains(part), "{payload}: {bad}");
            let error = RunError::from(bad);
            assert_eq!(error.class, ErrorClass::Permanent);
        }
        assert!(made(&with(&format!(r#","exchange":"{}""#, "k".repeat(255)))).is_ok());
    }
}
