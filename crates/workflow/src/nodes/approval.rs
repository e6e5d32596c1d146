//! `approval`: a person says yes or no.

use std::sync::Arc;

use bowline_model::question::AskRule;
use bowline_model::{ErrorClass, RunError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::calling::unexpected;
use super::fields::{Text, failure};
use super::span::{Span, expires_at};
use super::{Building, NodeType};
use crate::expression::Insert;
use crate::node::{Answer, Done, Exit, Next, Node, Ports, Visit, Wait};

/// Characters that a question may have: it is shown in lists.
const TITLE_MAX: usize = 1_000;

/// Whether people can be asked so.
pub(crate) fn check_title(title: &str) -> Result<(), String> {
    if title.trim().is_empty() {
        return Err("say what is asked".to_owned());
    }
    match title.chars().count() {
        length if length > TITLE_MAX => Err(format!("at most {TITLE_MAX} characters, there are {length}")),
        _ => Ok(()),
    }
}

/// The same, as far as it can be known before its places are filled.
pub(crate) fn check_written_title(title: &str) -> Result<(), String> {
    if title.contains("{{") { Ok(()) } else { check_title(title) }
}

#[derive(Debug)]
pub(super) struct Approval {
    title: Text,
    timeout: Option<Span>,
    rule: AskRule,
    /// Whether there is an edge for a no, and one for silence. Without one, it is a failure.
    on_rejected: bool,
    on_expired: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// What is asked, in 1 to 1,000 characters. A text with places.
    title: String,
    /// How long to wait for an answer, in milliseconds. For ever unless this, `timeout` or the policy says otherwise.
    #[serde(default)]
    timeout_ms: Option<u64>,
    /// The same, such as `3d`. A text with places.
    #[serde(default)]
    timeout: Option<String>,
    /// How many different people must say yes. One unless given.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    quorum: Option<u32>,
    /// Whether the person who started the run cannot approve. So unless given.
    #[serde(default)]
    four_eyes: Option<bool>,
}

impl NodeType for Approval {
    const TYPE: &'static str = "approval";
    const ABOUT: &'static str = "Waits for a person. A no takes `rejected` and silence takes `expired`; without such an edge they are failures.";
    const PORTS: &'static [&'static str] = &["success", "rejected", "expired"];
    type Config = Config;

    fn build(config: Config, building: &mut Building<'_>) -> Box<dyn Node> {
        let (millis, text) = (("/timeout_ms", config.timeout_ms), ("/timeout", config.timeout.as_deref()));
        let title = building.text("/title", &config.title);
        if let Err(what) = check_written_title(&config.title) {
            building.mistake("/title", what);
        }
        if let Err(what) = AskRule::check_quorum(config.quorum) {
            building.mistake("/quorum", what);
        }
        Box::new(Self {
            title,
            rule: AskRule::of(config.quorum, config.four_eyes),
            timeout: Span::build_limit(millis, text, building),
            on_rejected: building.has_edge("rejected"),
            on_expired: building.has_edge("expired"),
        })
    }
}

impl Node for Approval {
    fn enter(&self, visit: Visit<'_>) -> Result<Next, RunError> {
        let title = self.title.text(visit.context, Insert::Text)?;
        check_title(&title).map_err(|what| failure(format!("title: {what}")))?;
        Ok(Next::Wait(Wait::Approval { title, expires_at: expires_at(self.timeout.as_ref(), visit)?, rule: self.rule }))
    }

    fn answered(&self, _: Visit<'_>, answer: Answer) -> Result<Next, RunError> {
        match answer {
            Answer::Decided { approved: true, by, reason } => {
                Ok(Done::with(json!({"approved": true, "by": by, "reason": reason})))
            }
            Answer::Decided { approved: false, by, reason } if self.on_rejected => {
                Ok(by_port("rejected", json!({"approved": false, "by": by, "reason": reason})))
            }
            Answer::Decided { approved: false, by, reason } => {
                let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                Err(failure(format!("{by} said no{reason}")))
            }
            Answer::Expired if self.on_expired => {
                Ok(by_port("expired", json!({"approved": false, "by": null, "reason": null})))
            }
            Answer::Expired => Err(RunError::new(ErrorClass::Timeout, "nobody decided in time")),
            other => Err(unexpected(&other, "a decision")),
        }
    }

    fn ports(&self) -> Ports {
        Ports::Named(Self::PORTS.iter().map(|port| Arc::from(*port)).collect())
    }

    fn pinned(&self, output: &Value) -> Result<Done, String> {
        let exit = match output.get("approved") {
            None => return Err(".approved: is missing; say `true` or `false`".to_owned()),
            Some(Value::Bool(true)) => Exit::Success,
            // Nobody said no: nobody said anything.
            Some(Value::Bool(false)) if output.get("by") == Some(&Value::Null) => Exit::Port(Arc::from("expired")),
            Some(Value::Bool(false)) => Exit::Port(Arc::from("rejected")),
            Some(_) => return Err(".approved: must be `true` or `false`".to_owned()),
        };
        Ok(Done { output: output.clone(), exit, set: Vec::new() })
    }

    fn asks_people(&self) -> bool {
        true
    }

    fn has_effect(&self) -> bool {
        true
    }
}

/// Done, by an edge with a name.
pub(super) fn by_port(port: &str, output: Value) -> Next {
    Next::Done(Done { output, exit: Exit::Port(Arc::from(port)), set: Vec::new() })
}
