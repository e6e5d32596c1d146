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
use bowline_model::{ErrorClass, ResourceName, RunError, TenantId};
use bowline_store::Ledger;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::handlers::{Handler, HandlerFuture, Task, read};
use crate::brokers::Brokers;
use crate::secrets::Secrets;

/// How long a broker may take to confirm. The run's own time limit ends it too.
const CONFIRM_LIMIT: Duration = Duration::from_secs(30);
/// A connection that nobody used for so long is given up.
const UNUSED_MAX: Duration = Duration::from_secs(600);

const SHAPE: &str = r#"{"broker": "NAME", "exchange": "", "routing_key": "QUEUE", "body": …, "headers": {}, "properties": {"content_type": "…", "correlation_id": "…", "expiration_ms": 1000, "priority": 1, "type": "…", "message_id": "…"}, "mandatory": true}"#;

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
}

impl Inner {
    async fn publish(&self, task: &Task) -> Result<Arc<str>, RunError> {
        let wish: Wish = read(&task.payload, SHAPE)?;
        let (name, message) = (wish.broker.clone(), message(wish, task)?);
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

fn message(wish: Wish, task: &Task) -> Result<Message, RunError> {
    let written = wish.body.get();
    let (body, sort) = if written.starts_with('"') {
        let text: String = serde_json::from_str(written)
            .map_err(|error| permanent(format!("the payload must be {SHAPE}: body: {error}")))?;
        (text.into_bytes(), "text/plain; charset=utf-8")
    } else {
        (written.as_bytes().to_vec(), "application/json")
    };
    let WishedProperties { message_id, content_type, correlation_id, expiration_ms, priority, r#type } =
        wish.properties;
    let message_id = message_id.unwrap_or_else(|| task.job.to_string());
    if message_id.is_empty() {
        return Err(permanent("properties.message_id: must not be empty".to_owned()));
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
    Ok(Message { exchange, routing_key, properties, body, mandatory })
}

fn permanent(message: String) -> RunError {
    RunError::new(ErrorClass::Permanent, message)
}

fn class_of(error: &AmqpError) -> ErrorClass {
    if error.is_transient() { ErrorClass::Transient } else { ErrorClass::Permanent }
}

#[cfg(test)]
mod tests {
    use bowline_model::{JobId, RunId, Timestamp};
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn task(payload: &str) -> Task {
        let at = Timestamp::from_millis(1);
        Task {
            run: RunId::mint(at, [1; 10]),
            job: JobId::mint(at, [2; 10]),
            tenant: TenantId::mint(at, [3; 10]),
            payload: payload.into(),
            attempt: 1,
            fence: 1,
            stop: CancellationToken::new(),
        }
    }

    fn made(payload: &str) -> Result<Message, RunError> {
        let task = task(payload);
        message(read(&task.payload, SHAPE)?, &task)
    }

    #[test]
    fn a_body_is_published_as_it_was_written() {
        let text = made(r#"{"broker":"b","routing_key":"q","body":"grüße\n"}"#).unwrap();
        assert_eq!(text.body, "grüße\n".as_bytes());
        assert_eq!(text.properties.content_type.as_deref(), Some("text/plain; charset=utf-8"));
        assert_eq!(text.properties.message_id, task("").job.to_string(), "the same for every attempt");
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
    fn what_does_not_fit_is_refused_by_name() {
        for (payload, named) in [
            (r#"{"routing_key":"q","body":1}"#, "broker"),
            (r#"{"broker":"b","body":1}"#, "routing_key"),
            (r#"{"broker":"b","routing_key":"q"}"#, "body"),
            (r#"{"broker":"b","routing_key":"q","body":1,"mandatry":true}"#, "mandatry"),
            (r#"{"broker":"b","routing_key":"q","body":1,"properties":{"ttl":1}}"#, "ttl"),
            (r#"{"broker":"b","routing_key":"q","body":1,"properties":{"message_id":""}}"#, "message_id"),
            (r#"{"broker":"no name","routing_key":"q","body":1}"#, "resource"),
            ("null", "payload"),
        ] {
            let error = made(payload).expect_err(payload);
            assert_eq!(error.class, ErrorClass::Permanent);
            assert!(error.message.contains(named), "{payload}: {}", error.message);
        }
    }
}
