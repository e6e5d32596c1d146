//! The kinds of resources there are.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What sort of configuration it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResourceKind {
    /// A type of command that runs on hosts.
    Command,
    /// A RabbitMQ broker.
    Rabbitmq,
    /// Where a secret is kept.
    SecretRef,
    /// Something that is started again and again.
    Schedule,
    /// Something that every message of a queue starts.
    Trigger,
    /// A graph of nodes that a server carries out.
    Workflow,
    /// A state machine that a server carries out.
    Blueprint,
}

/// Why a text is not a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no such kind of resource; the kinds are: command, rabbitmq, secret_ref, schedule, trigger, workflow, blueprint"
)]
pub struct NotAKind;

impl ResourceKind {
    pub const ALL: [Self; 7] = [
        Self::Command,
        Self::Rabbitmq,
        Self::SecretRef,
        Self::Schedule,
        Self::Trigger,
        Self::Workflow,
        Self::Blueprint,
    ];

    /// Whether such a resource asks for jobs, for as long as it is there.
    pub const fn starts_jobs(self) -> bool {
        matches!(self, Self::Schedule | Self::Trigger)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Rabbitmq => "rabbitmq",
            Self::SecretRef => "secret_ref",
            Self::Schedule => "schedule",
            Self::Trigger => "trigger",
            Self::Workflow => "workflow",
            Self::Blueprint => "blueprint",
        }
    }
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ResourceKind {
    type Err = NotAKind;

    fn from_str(text: &str) -> Result<Self, NotAKind> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or(NotAKind)
    }
}
