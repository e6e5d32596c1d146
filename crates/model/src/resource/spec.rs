//! What a resource says, whatever its kind.

use schemars::{Schema, SchemaGenerator};
use serde::de::DeserializeOwned;

use super::ResourceKind;
use crate::blueprint::BlueprintSpec;
use crate::broker::RabbitmqSpec;
use crate::fleet::CommandSpec;
use crate::read_all::{ReadAll, read_all};
use crate::schedule::ScheduleSpec;
use crate::secret::SecretRefSpec;
use crate::trigger::TriggerSpec;
use crate::workflow::{WorkflowSpec, read_workflow};

/// What is wrong with what somebody wrote, and where in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {what}{}", and_more(.others.len()))]
pub struct BadSpec {
    pub path: String,
    pub what: String,
    /// It could be read, but a rule of the house forbids it: a value where only a reference may be.
    pub forbidden: bool,
    /// What else is wrong, if whoever looked went on looking.
    pub others: Vec<Self>,
}

fn and_more(others: usize) -> String {
    if others == 0 { String::new() } else { format!(" (and {others} more)") }
}

impl BadSpec {
    pub fn at(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { path: path.into(), what: what.into(), forbidden: false, others: Vec::new() }
    }

    pub fn forbidden(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { forbidden: true, ..Self::at(path, what) }
    }

    /// Several mistakes as one; nothing if there are none.
    pub fn several(mistakes: impl IntoIterator<Item = Self>) -> Result<(), Self> {
        let mut mistakes = mistakes.into_iter();
        match mistakes.next() {
            Some(first) => Err(Self { others: mistakes.collect(), ..first }),
            None => Ok(()),
        }
    }

    /// As a part of something else, which stands at `place`.
    #[must_use]
    pub fn under(self, place: &str) -> Self {
        let others = self.others.into_iter().map(|other| other.under(place)).collect();
        Self { path: format!("{place}.{}", self.path), others, ..self }
    }

    /// All that is wrong, the first first.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.others)
    }
}

/// What a value says, or everything that is wrong with its shape.
fn read<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, BadSpec> {
    let ReadAll { value, errors, .. } = read_all("", value);
    BadSpec::several(errors)?;
    value.ok_or_else(|| BadSpec::at("spec", "cannot be read"))
}

/// The content of a resource.
#[derive(Debug, Clone, PartialEq)]
pub enum Spec {
    Command(Box<CommandSpec>),
    Rabbitmq(RabbitmqSpec),
    SecretRef(SecretRefSpec),
    Workflow(Box<WorkflowSpec>),
    Schedule(Box<ScheduleSpec>),
    Blueprint(Box<BlueprintSpec>),
    Trigger(Box<TriggerSpec>),
}

impl Spec {
    pub const fn kind(&self) -> ResourceKind {
        match self {
            Self::Command(_) => ResourceKind::Command,
            Self::Rabbitmq(_) => ResourceKind::Rabbitmq,
            Self::SecretRef(_) => ResourceKind::SecretRef,
            Self::Workflow(_) => ResourceKind::Workflow,
            Self::Schedule(_) => ResourceKind::Schedule,
            Self::Blueprint(_) => ResourceKind::Blueprint,
            Self::Trigger(_) => ResourceKind::Trigger,
        }
    }

    /// Whether it says what is executed on hosts: it is a command type, or has a command written into it.
    pub fn has_command(&self) -> bool {
        match self {
            Self::Command(_) => true,
            Self::Workflow(spec) => spec.has_inline_command(),
            Self::Schedule(spec) => spec.start.has_inline_command(),
            Self::Trigger(spec) => spec.start.has_inline_command(),
            // What a blueprint dispatches is worked on by workers; the type of commands is not among it.
            Self::Blueprint(_) | Self::Rabbitmq(_) | Self::SecretRef(_) => false,
        }
    }

    /// Reads what somebody wrote. Unknown fields are refused by name.
    pub fn from_value(kind: ResourceKind, value: serde_json::Value) -> Result<Self, BadSpec> {
        let value = match value {
            object @ serde_json::Value::Object(_) => object,
            _ => return Err(BadSpec::at("spec", "must be an object")),
        };
        match kind {
            ResourceKind::Command => read(value).map(|spec| Self::Command(Box::new(spec))),
            ResourceKind::Rabbitmq => read(value).map(Self::Rabbitmq),
            ResourceKind::SecretRef => read(value).map(Self::SecretRef),
            ResourceKind::Workflow => read_workflow(value).map(|spec| Self::Workflow(Box::new(spec))),
            ResourceKind::Schedule => read(value).map(|spec| Self::Schedule(Box::new(spec))),
            ResourceKind::Blueprint => BlueprintSpec::read(value).map(|spec| Self::Blueprint(Box::new(spec))),
            ResourceKind::Trigger => read(value).map(|spec| Self::Trigger(Box::new(spec))),
        }
    }

    /// Whether its parts fit together.
    pub fn check(&self) -> Result<(), BadSpec> {
        match self {
            Self::Command(spec) => spec.check(),
            Self::Rabbitmq(spec) => spec.check(),
            Self::SecretRef(spec) => spec.check(),
            Self::Workflow(spec) => spec.check(),
            Self::Schedule(spec) => spec.check(),
            Self::Blueprint(spec) => spec.check(),
            Self::Trigger(spec) => spec.check(),
        }
    }

    /// The one way to write it, with every default in its place. Two that mean the same are written the same.
    pub fn canonical(&self) -> String {
        let text = match self {
            Self::Command(spec) => serde_json::to_string(spec),
            Self::Rabbitmq(spec) => serde_json::to_string(spec),
            Self::SecretRef(spec) => serde_json::to_string(spec),
            Self::Workflow(spec) => serde_json::to_string(spec),
            Self::Schedule(spec) => serde_json::to_string(spec),
            Self::Blueprint(spec) => serde_json::to_string(spec),
            Self::Trigger(spec) => serde_json::to_string(spec),
        };
        text.expect("a spec has text keys and finite numbers, so it can be written as JSON")
    }

    /// The JSON Schema of this kind.
    pub fn schema(kind: ResourceKind, generator: &mut SchemaGenerator) -> Schema {
        match kind {
            ResourceKind::Command => generator.subschema_for::<CommandSpec>(),
            ResourceKind::Rabbitmq => generator.subschema_for::<RabbitmqSpec>(),
            ResourceKind::SecretRef => generator.subschema_for::<SecretRefSpec>(),
            ResourceKind::Workflow => generator.subschema_for::<WorkflowSpec>(),
            ResourceKind::Schedule => generator.subschema_for::<ScheduleSpec>(),
            ResourceKind::Blueprint => generator.subschema_for::<BlueprintSpec>(),
            ResourceKind::Trigger => generator.subschema_for::<TriggerSpec>(),
        }
    }
}
