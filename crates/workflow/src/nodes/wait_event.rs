//! `wait_event`: something happens elsewhere, and somebody tells us.

use std::sync::Arc;

use bowline_model::{ErrorClass, RunError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::approval::by_port;
use super::calling::unexpected;
use super::fields::Text;
use super::span::{Span, expires_at};
use super::{Building, NodeType};
use crate::expression::Insert;
use crate::node::{Answer, Done, Next, Node, Ports, Visit, Wait};

const NAME_BYTES_MAX: usize = 128;

#[derive(Debug)]
pub(super) struct WaitEvent {
    event: Arc<str>,
    key: Option<Text>,
    timeout: Option<Span>,
    on_expired: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// What the event is called, such as `payment.received`.
    event: String,
    /// Which of them: only an event with the same key is heard. A text with places, such as `{{ variables.order_id }}`.
    #[serde(default)]
    key: Option<String>,
    /// How long to wait, in milliseconds. For ever unless this, `timeout` or the policy says otherwise.
    #[serde(default)]
    timeout_ms: Option<u64>,
    /// The same, such as `3d`. A text with places.
    #[serde(default)]
    timeout: Option<String>,
}

impl NodeType for WaitEvent {
    const TYPE: &'static str = "wait_event";
    const ABOUT: &'static str = "Waits for an event from outside; its payload is the output. Silence takes `expired`; without such an edge it is a failure.";
    const PORTS: &'static [&'static str] = &["success", "expired"];
    type Config = Config;

    fn build(config: Config, building: &mut Building<'_>) -> Box<dyn Node> {
        let event = config.event;
        if event.is_empty()
            || event.len() > NAME_BYTES_MAX
            || event.chars().any(|c| c.is_control() || c.is_whitespace())
        {
            building.mistake("/event", format!("an event's name has 1 to {NAME_BYTES_MAX} bytes and no blanks"));
        }
        let (millis, text) = (("/timeout_ms", config.timeout_ms), ("/timeout", config.timeout.as_deref()));
        Box::new(Self {
            event: event.into(),
            key: building.maybe_text("/key", config.key.as_deref()),
            timeout: Span::build_limit(millis, text, building),
            on_expired: building.has_edge("expired"),
        })
    }
}

impl Node for WaitEvent {
    fn enter(&self, visit: Visit<'_>) -> Result<Next, RunError> {
        let key = self.key.as_ref().map(|key| key.text(visit.context, Insert::Text)).transpose()?;
        let expires_at = expires_at(self.timeout.as_ref(), visit)?;
        Ok(Next::Wait(Wait::Event { name: self.event.clone(), key, expires_at }))
    }

    fn answered(&self, _: Visit<'_>, answer: Answer) -> Result<Next, RunError> {
        match answer {
            Answer::Event(payload) => Ok(Done::with(payload)),
            Answer::Expired if self.on_expired => Ok(by_port("expired", Value::Null)),
            Answer::Expired => {
                Err(RunError::new(ErrorClass::Timeout, format!("no event `{}` came in time", self.event)))
            }
            other => Err(unexpected(&other, "an event")),
        }
    }

    fn ports(&self) -> Ports {
        Ports::Named(Self::PORTS.iter().map(|port| Arc::from(*port)).collect())
    }

    fn has_effect(&self) -> bool {
        true
    }
}
