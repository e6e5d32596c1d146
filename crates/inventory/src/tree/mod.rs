//! A document as a tree that remembers its lines, whether it came as JSON or as YAML.
//!
//! Serde would lose what we owe to whoever wrote the text: the line of a mistake, a key that is there twice, how a number
//! was written. Enters: text. Leaves: [`Node`]s, no deeper and no larger than the limits say. Maps keep their order.

mod emit;
mod json;
mod scalar;
mod yaml;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Number, Value};

pub(crate) use emit::emit;
pub(crate) use json::json;
pub(crate) use scalar::{Schema, digits, integer};
pub(crate) use yaml::{yaml, yaml_documents};

use crate::error::ImportError;
use crate::place::At;

/// The key under which Ansible prints an encrypted value as JSON.
pub(crate) const VAULT: &str = "__ansible_vault";

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// 0 where lines are not known.
    pub line: u32,
    /// How a number, a truth value or nothing was spelt, if it was without quotes: where a text is expected, this is it.
    pub written: Option<Box<str>>,
    pub data: Data,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Data {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// Encrypted by Ansible Vault.
    Vault,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub key: String,
    pub line: u32,
    pub value: Node,
}

impl Node {
    /// A node that we write rather than read.
    pub(crate) fn new(data: Data) -> Self {
        Self { line: 0, written: None, data }
    }

    pub(crate) fn text(text: &str) -> Self {
        Self::new(Data::Text(text.to_owned()))
    }

    pub(crate) fn map<'a>(entries: impl IntoIterator<Item = (&'a str, Node)>) -> Self {
        let entry = |(key, value): (&str, Node)| Entry { key: key.to_owned(), line: 0, value };
        Self::new(Data::Map(entries.into_iter().map(entry).collect()))
    }

    pub(crate) fn list(items: impl IntoIterator<Item = Node>) -> Self {
        Self::new(Data::List(items.into_iter().collect()))
    }

    pub(crate) fn is_null(&self) -> bool {
        self.data == Data::Null
    }

    /// What it is, for a sentence.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.data {
            Data::Null => "nothing",
            Data::Bool(_) => "true or false",
            Data::Number(_) => "a number",
            Data::Text(_) => "a text",
            Data::List(_) => "a list",
            Data::Map(_) => "a map",
            Data::Vault => "an encrypted value",
        }
    }

    pub(crate) fn unexpected(&self, expected: &'static str, at: At<'_>) -> ImportError {
        ImportError::Unexpected { at: at.place(), expected, found: self.kind() }
    }

    /// The entries of a map; none for nothing.
    pub(crate) fn into_map(self, expected: &'static str, at: At<'_>) -> Result<Vec<Entry>, ImportError> {
        match self.data {
            Data::Map(entries) => Ok(entries),
            Data::Null => Ok(Vec::new()),
            _ => Err(self.unexpected(expected, at)),
        }
    }

    /// The items of a list; none for nothing.
    pub(crate) fn into_list(self, expected: &'static str, at: At<'_>) -> Result<Vec<Node>, ImportError> {
        match self.data {
            Data::List(items) => Ok(items),
            Data::Null => Ok(Vec::new()),
            _ => Err(self.unexpected(expected, at)),
        }
    }

    /// A text, or what was written where a text was meant: `rack: 12`.
    pub(crate) fn as_text(&self, expected: &'static str, at: At<'_>) -> Result<&str, ImportError> {
        match (&self.data, &self.written) {
            (Data::Text(text), _) => Ok(text),
            (Data::Bool(_) | Data::Number(_), Some(written)) => Ok(written),
            _ => Err(self.unexpected(expected, at)),
        }
    }

    /// An encrypted value becomes what Ansible prints for it in JSON, and whoever refuses secrets knows it by that.
    pub(crate) fn into_value(self) -> Value {
        match self.data {
            Data::Null => Value::Null,
            Data::Bool(value) => Value::Bool(value),
            Data::Number(value) => Value::Number(value),
            Data::Text(value) => Value::String(value),
            Data::List(items) => items.into_iter().map(Self::into_value).collect(),
            Data::Map(entries) => entries.into_iter().map(|entry| (entry.key, entry.value.into_value())).collect(),
            Data::Vault => serde_json::json!({VAULT: ""}),
        }
    }

    /// As JSON for people to read.
    pub(crate) fn pretty(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a tree has texts for keys and finite numbers");
        text.push('\n');
        text
    }

    /// About how much memory a copy of it takes.
    pub(crate) fn weight(&self) -> usize {
        let inside = match &self.data {
            Data::Text(text) => text.len(),
            Data::List(items) => items.iter().map(Self::weight).sum(),
            Data::Map(entries) => entries.iter().map(|entry| entry.key.len() + 32 + entry.value.weight()).sum(),
            _ => 0,
        };
        size_of::<Self>() + inside
    }
}

impl From<&Value> for Node {
    fn from(value: &Value) -> Self {
        Self::new(match value {
            Value::Null => Data::Null,
            Value::Bool(value) => Data::Bool(*value),
            Value::Number(value) => Data::Number(value.clone()),
            Value::String(value) => Data::Text(value.clone()),
            Value::Array(items) => Data::List(items.iter().map(Self::from).collect()),
            Value::Object(entries) => return entries.into(),
        })
    }
}

impl From<&serde_json::Map<String, Value>> for Node {
    fn from(entries: &serde_json::Map<String, Value>) -> Self {
        Self::map(entries.iter().map(|(key, value)| (key.as_str(), Self::from(value))))
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.data {
            Data::Null | Data::Vault => serializer.serialize_unit(),
            Data::Bool(value) => serializer.serialize_bool(*value),
            Data::Number(value) => value.serialize(serializer),
            Data::Text(value) => serializer.serialize_str(value),
            Data::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| list.serialize_element(item))?;
                list.end()
            }
            Data::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                entries.iter().try_for_each(|entry| map.serialize_entry(&entry.key, &entry.value))?;
                map.end()
            }
        }
    }
}
