//! Parts of configurations that several types of nodes have: texts and trees that know their field, flags and numbers that
//! may be computed.

use std::borrow::Cow;

use bowline_model::{ErrorClass, RunError};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::building::Building;
use crate::compile::path_under;
use crate::expression::{Context, ExpressionError, Insert, Template, TemplateTree};

/// A failure that will come again with the same context.
pub(super) fn failure(message: impl Into<String>) -> RunError {
    RunError::new(ErrorClass::Permanent, message)
}

/// Says in which field an expression has no value.
fn named(field: &str, error: &ExpressionError) -> RunError {
    let place = error.place();
    let path = path_under(field, &place.pointer);
    failure(format!("{path}: line {}, column {}: {}", place.line, place.column, error.message()))
}

fn field_of(at: &str) -> Box<str> {
    path_under("", at).trim_start_matches('.').into()
}

/// A text with places, which knows what it is called.
#[derive(Debug)]
pub(crate) struct Text {
    field: Box<str>,
    template: Template,
}

impl Text {
    pub fn new(at: &str, template: Template) -> Self {
        Self { field: field_of(at), template }
    }

    /// What it is called.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// The text itself, if nothing in it has to be filled.
    pub fn as_literal(&self) -> Option<&str> {
        self.template.as_literal()
    }

    pub fn text(&self, context: &Context, insert: Insert) -> Result<String, RunError> {
        self.template.text(context, insert).map_err(|error| named(&self.field, &error))
    }

    pub fn value(&self, context: &Context) -> Result<Value, RunError> {
        self.template.value(context).map_err(|error| named(&self.field, &error))
    }
}

/// A condition, which knows what it is called.
#[derive(Debug)]
pub(crate) struct Condition {
    field: Box<str>,
    template: Template,
}

impl Condition {
    pub fn new(at: &str, template: Template) -> Self {
        Self { field: field_of(at), template }
    }

    pub fn holds(&self, context: &Context) -> Result<bool, RunError> {
        self.template.holds(context).map_err(|error| named(&self.field, &error))
    }
}

/// JSON with places in its texts, which knows what it is called.
#[derive(Debug)]
pub(crate) struct Tree {
    field: Box<str>,
    tree: TemplateTree,
}

impl Tree {
    pub fn new(at: &str, tree: TemplateTree) -> Self {
        Self { field: field_of(at), tree }
    }

    pub fn value<'a>(&'a self, context: &Context) -> Result<Cow<'a, Value>, RunError> {
        self.tree.value(context).map_err(|error| named(&self.field, &error))
    }

    pub fn field(&self) -> &str {
        &self.field
    }
}

/// `true`, `false`, or a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FlagConfig {
    Fixed(bool),
    Condition(String),
}

impl<'de> Deserialize<'de> for FlagConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Bool(flag) => Ok(Self::Fixed(flag)),
            Value::String(text) => Ok(Self::Condition(text)),
            _ => Err(serde::de::Error::custom("must be true, false or a condition")),
        }
    }
}

impl JsonSchema for FlagConfig {
    fn schema_name() -> Cow<'static, str> {
        "Flag".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["boolean", "string"], "description": "true, false or a condition"})
    }
}

/// A flag, compiled.
#[derive(Debug)]
pub(super) enum Flag {
    Fixed(bool),
    Condition(Condition),
}

impl Flag {
    pub fn build(at: &str, config: &FlagConfig, building: &mut Building<'_>) -> Self {
        match config {
            FlagConfig::Fixed(flag) => Self::Fixed(*flag),
            FlagConfig::Condition(text) => Self::Condition(building.condition(at, text)),
        }
    }

    pub fn holds(&self, context: &Context) -> Result<bool, RunError> {
        match self {
            Self::Fixed(flag) => Ok(*flag),
            Self::Condition(condition) => condition.holds(context),
        }
    }
}
