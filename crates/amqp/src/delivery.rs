//! A message as it came from a queue.

use std::fmt;

use lapin::types::ShortString;
use rand::RngExt;
use serde_json::{Map, Value};

use crate::headers;

/// A message, and what the broker says about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    pub key: DeliveryKey,
    pub queue: String,
    pub exchange: String,
    pub routing_key: String,
    /// The broker has given it to somebody before, who may or may not have handled it.
    pub redelivered: bool,
    /// The number of this delivery on its channel: for log lines. It says nothing about the message.
    pub delivery_tag: u64,
    pub message_id: Option<String>,
    pub correlation_id: Option<String>,
    pub content_type: Option<String>,
    pub reply_to: Option<String>,
    /// `type` in AMQP.
    pub kind: Option<String>,
    pub headers: Map<String, Value>,
    pub body: Vec<u8>,
}

/// By what a message is known again.
///
/// With a message id that is exact: every delivery of the message has the same key. Without one nothing can be, because the
/// broker does not number messages: two messages may be equal to the last byte, and a key made of what they say would make one
/// of them disappear. So a delivery without an id gets a key that nobody else has. Then no message is lost, and one that is
/// delivered again (a lost connection, a stopped server) may be handled twice. Publishers that mind set a message id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DeliveryKey {
    MessageId(String),
    /// Of this delivery only.
    Single(String),
}

impl DeliveryKey {
    fn of(message_id: Option<&str>) -> Self {
        match message_id {
            Some(id) => Self::MessageId(id.to_owned()),
            None => Self::Single(format!("{:032x}", rand::rng().random::<u128>())),
        }
    }

    /// Whether another delivery of the same message has the same key.
    pub const fn is_exact(&self) -> bool {
        matches!(self, Self::MessageId(_))
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::MessageId(text) | Self::Single(text) => text,
        }
    }
}

impl fmt::Display for DeliveryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Delivery {
    pub(crate) fn read(queue: &str, from: &mut lapin::message::Delivery) -> Self {
        let properties = &from.properties;
        let text = |value: &Option<ShortString>| value.as_ref().map(ToString::to_string);
        // An empty id says as little as none.
        let message_id = text(properties.message_id()).filter(|id| !id.is_empty());
        Self {
            key: DeliveryKey::of(message_id.as_deref()),
            queue: queue.to_owned(),
            exchange: from.exchange.to_string(),
            routing_key: from.routing_key.to_string(),
            redelivered: from.redelivered,
            delivery_tag: from.delivery_tag,
            message_id,
            correlation_id: text(properties.correlation_id()),
            content_type: text(properties.content_type()),
            reply_to: text(properties.reply_to()),
            kind: text(properties.kind()),
            headers: properties.headers().as_ref().map(headers::from_table).unwrap_or_default(),
            body: std::mem::take(&mut from.data),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_equal_messages_without_an_id_are_two_messages() {
        assert_ne!(DeliveryKey::of(None), DeliveryKey::of(None));
        assert!(!DeliveryKey::of(None).is_exact());
        assert_eq!(DeliveryKey::of(Some("a")), DeliveryKey::of(Some("a")));
        assert!(DeliveryKey::of(Some("a")).is_exact());
    }
}
