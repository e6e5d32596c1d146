//! A message on its way to the broker.

use lapin::BasicProperties;
use lapin::types::ShortString;
use serde_json::{Map, Value};

use crate::{AmqpError, headers};

/// What is to be published, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Empty for the one that every queue is bound to by its name.
    pub exchange: String,
    pub routing_key: String,
    pub properties: MessageProperties,
    pub body: Vec<u8>,
    /// Whether a message that no queue wants is reported as unroutable. Without it the broker drops such a message and
    /// confirms it.
    pub mandatory: bool,
}

impl Message {
    /// Whether it can be written as AMQP, before anybody is asked to take it.
    pub fn check(&self) -> Result<(), AmqpError> {
        short("exchange", &self.exchange)?;
        short("routing_key", &self.routing_key)?;
        self.properties.to_amqp().map(drop)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct MessageProperties {
    /// By which whoever reads it knows it again: the same for every attempt to publish the same message.
    pub message_id: String,
    pub content_type: Option<String>,
    pub correlation_id: Option<String>,
    /// After so many milliseconds in a queue it is thrown away, or goes to the dead-letter exchange.
    pub expiration_ms: Option<u64>,
    pub priority: Option<u8>,
    /// What sort of message it is, in words of those who exchange it (`type` in AMQP).
    pub kind: Option<String>,
    pub headers: Map<String, Value>,
    /// Whether it survives a restart of the broker, in a queue that does too.
    pub durable: bool,
}

impl MessageProperties {
    /// Durable, and with nothing but its id.
    pub fn new(message_id: impl Into<String>) -> Self {
        Self {
            message_id: message_id.into(),
            content_type: None,
            correlation_id: None,
            expiration_ms: None,
            priority: None,
            kind: None,
            headers: Map::new(),
            durable: true,
        }
    }

    pub(crate) fn to_amqp(&self) -> Result<BasicProperties, AmqpError> {
        let durable = if self.durable { 2 } else { 1 };
        let mut properties = BasicProperties::default()
            .with_delivery_mode(durable)
            .with_message_id(short("properties.message_id", &self.message_id)?);
        if let Some(text) = &self.content_type {
            properties = properties.with_content_type(short("properties.content_type", text)?);
        }
        if let Some(text) = &self.correlation_id {
            properties = properties.with_correlation_id(short("properties.correlation_id", text)?);
        }
        if let Some(ms) = self.expiration_ms {
            // RabbitMQ answers what it cannot keep by closing the channel, with less clear words.
            if ms > u64::from(u32::MAX) {
                return Err(AmqpError::bad("properties.expiration_ms", format!("at most {} milliseconds", u32::MAX)));
            }
            properties = properties.with_expiration(short("properties.expiration_ms", &ms.to_string())?);
        }
        if let Some(priority) = self.priority {
            properties = properties.with_priority(priority);
        }
        if let Some(text) = &self.kind {
            properties = properties.with_type(short("properties.type", text)?);
        }
        if !self.headers.is_empty() {
            properties = properties.with_headers(headers::to_table(&self.headers, "headers")?);
        }
        Ok(properties)
    }
}

/// AMQP keeps names and ids in texts of at most 255 bytes.
pub(crate) fn short(path: &str, text: &str) -> Result<ShortString, AmqpError> {
    ShortString::try_new(text).map_err(|_| AmqpError::bad(path, "at most 255 bytes"))
}
