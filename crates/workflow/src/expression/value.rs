//! A value on its way through an expression.
//!
//! What lies in the context is borrowed and only copied when it leaves; what an expression makes is owned. Every kind
//! of JSON has its arm, so that operators need not look through two layers.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

use super::{context::Table, limits::DEPTH_MAX};

#[derive(Debug)]
pub(super) enum Val<'a> {
    /// A path that leads nowhere, and where in the text it stopped leading somewhere.
    Missing {
        end: u32,
    },
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
    List(Cow<'a, [Value]>),
    Object(Cow<'a, Map<String, Value>>),
    /// `steps` or `variables` as a whole: an object that is not kept as one.
    Table(&'a Table),
}

impl<'a> Val<'a> {
    pub fn borrowed(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(bool) => Self::Bool(*bool),
            Value::Number(number) => Self::Number(number.clone()),
            Value::String(text) => Self::Text(Cow::Borrowed(text)),
            Value::Array(list) => Self::List(Cow::Borrowed(list)),
            Value::Object(object) => Self::Object(Cow::Borrowed(object)),
        }
    }

    pub fn owned(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(bool) => Self::Bool(bool),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => Self::Text(Cow::Owned(text)),
            Value::Array(list) => Self::List(Cow::Owned(list)),
            Value::Object(object) => Self::Object(Cow::Owned(object)),
        }
    }

    pub fn text(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }

    /// What it is called in messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "nothing",
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Object(_) | Self::Table(_) => "an object",
        }
    }

    /// What counts as true where a yes or no is asked for.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Missing { .. } | Self::Null => false,
            Self::Bool(bool) => *bool,
            Self::Number(number) => number.as_f64() != Some(0.0),
            Self::Text(text) => !text.is_empty(),
            Self::List(list) => !list.is_empty(),
            Self::Object(object) => !object.is_empty(),
            Self::Table(table) => !table.is_empty(),
        }
    }

    /// Copies what was borrowed. Whoever calls this has looked at the size.
    pub fn into_value(self) -> Value {
        match self {
            Self::Missing { .. } | Self::Null => Value::Null,
            Self::Bool(bool) => Value::Bool(bool),
            Self::Number(number) => Value::Number(number),
            Self::Text(text) => Value::String(text.into_owned()),
            Self::List(list) => Value::Array(list.into_owned()),
            Self::Object(object) => Value::Object(object.into_owned()),
            Self::Table(table) => table.to_json(),
        }
    }
}

/// Why a value may not leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Oversize {
    Bytes,
    Depth,
}

/// Takes the size that a value has as JSON text from what is left. It stops as soon as it knows.
pub(super) struct Measure {
    pub left: usize,
}

impl Measure {
    pub fn take(&mut self, bytes: usize) -> Result<(), Oversize> {
        self.left = self.left.checked_sub(bytes).ok_or(Oversize::Bytes)?;
        Ok(())
    }

    /// A value that stands `depth` levels deep.
    pub fn value(&mut self, value: &Value, depth: usize) -> Result<(), Oversize> {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => self.take(4),
            // What JSON escapes is longer there; that much the limit need not be exact.
            Value::String(text) => self.take(text.len() + 2),
            Value::Array(list) => self.list(list, depth),
            Value::Object(object) => self.object(object, depth),
        }
    }

    pub fn val(&mut self, val: &Val<'_>, depth: usize) -> Result<(), Oversize> {
        match val {
            Val::Missing { .. } | Val::Null | Val::Bool(_) | Val::Number(_) => self.take(4),
            Val::Text(text) => self.take(text.len() + 2),
            Val::List(list) => self.list(list, depth),
            Val::Object(object) => self.object(object, depth),
            Val::Table(table) => {
                self.take(2)?;
                table.iter().try_for_each(|(key, value)| {
                    self.take(key.len() + 4)?;
                    self.value(value, depth + 1)
                })
            }
        }
    }

    fn list(&mut self, list: &[Value], depth: usize) -> Result<(), Oversize> {
        Self::level(depth)?;
        self.take(2 + list.len())?;
        list.iter().try_for_each(|value| self.value(value, depth + 1))
    }

    fn object(&mut self, object: &Map<String, Value>, depth: usize) -> Result<(), Oversize> {
        Self::level(depth)?;
        self.take(2)?;
        object.iter().try_for_each(|(key, value)| {
            self.take(key.len() + 4)?;
            self.value(value, depth + 1)
        })
    }

    fn level(depth: usize) -> Result<(), Oversize> {
        if depth >= DEPTH_MAX { Err(Oversize::Depth) } else { Ok(()) }
    }
}
