//! The subschemas of a JSON Schema, and which part of an instance each is applied to.
//!
//! What counts the work of an evaluation walks a schema through this list, so it errs on the side of too many parts: a
//! keyword counts whether or not the draft in use knows it.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// What a subschema is applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum On<'a> {
    /// The same value as the schema it stands in.
    Same,
    /// The property of this name.
    Property(&'a str),
    /// Every property.
    Properties,
    /// Every property whose name matches this pattern.
    Matching(&'a str),
    /// The name of every property.
    Names,
    /// The item at this index.
    Item(usize),
    /// Every item.
    Items,
}

/// One subschema.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    pub on: On<'a>,
    pub schema: &'a Value,
}

/// Keywords that say something about a schema and are not evaluated.
const NOTES: [&str; 15] = [
    "$schema",
    "$id",
    "id",
    "$anchor",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentSchema",
];

/// Whether what stands under a keyword is one of the parts below, rather than a value to compare with.
fn is_applicator(keyword: &str) -> bool {
    matches!(
        keyword,
        "$ref"
            | "allOf"
            | "anyOf"
            | "oneOf"
            | "not"
            | "if"
            | "then"
            | "else"
            | "dependentSchemas"
            | "dependencies"
            | "properties"
            | "patternProperties"
            | "additionalProperties"
            | "unevaluatedProperties"
            | "propertyNames"
            | "items"
            | "prefixItems"
            | "additionalItems"
            | "unevaluatedItems"
            | "contains"
    )
}

/// The subschemas that stand in a schema. A `$ref` is not followed; see [`References`].
pub(super) fn parts<'a>(schema: &'a Map<String, Value>, mut take: impl FnMut(Part<'a>)) {
    let mut part = |on, schema| take(Part { on, schema });
    for (keyword, value) in schema {
        match (keyword.as_str(), value) {
            ("allOf" | "anyOf" | "oneOf", Value::Array(all)) => all.iter().for_each(|one| part(On::Same, one)),
            ("not" | "if" | "then" | "else", one) => part(On::Same, one),
            ("dependentSchemas" | "dependencies", Value::Object(all)) => {
                all.values().filter(|one| !one.is_array()).for_each(|one| part(On::Same, one));
            }
            ("properties", Value::Object(all)) => all.iter().for_each(|(name, one)| part(On::Property(name), one)),
            ("patternProperties", Value::Object(all)) => {
                all.iter().for_each(|(pattern, one)| part(On::Matching(pattern), one));
            }
            ("additionalProperties" | "unevaluatedProperties", one) => part(On::Properties, one),
            ("propertyNames", one) => part(On::Names, one),
            ("items" | "prefixItems", Value::Array(all)) => {
                all.iter().enumerate().for_each(|(n, one)| part(On::Item(n), one));
            }
            ("items" | "additionalItems" | "unevaluatedItems" | "contains", one) => part(On::Items, one),
            _ => {}
        }
    }
}

/// What a schema has to do by itself, without its parts: the values it compares with, one for each.
pub(super) fn own_work(schema: &Map<String, Value>) -> u64 {
    let compared = schema.iter().filter(|(keyword, _)| !is_applicator(keyword) && !NOTES.contains(&keyword.as_str()));
    compared.fold(1, |sum: u64, (_, value)| sum.saturating_add(nodes(value)))
}

/// Values inside a value, itself included. JSON that reaches us has a bounded depth.
pub(super) fn nodes(value: &Value) -> u64 {
    match value {
        Value::Array(items) => items.iter().fold(1, |sum, item| sum + nodes(item)),
        Value::Object(fields) => fields.values().fold(1, |sum, field| sum + nodes(field)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}

/// Finds what `$ref` names inside one schema.
#[derive(Debug)]
pub(super) struct References<'a> {
    root: &'a Value,
    anchors: HashMap<&'a str, &'a Value>,
}

impl<'a> References<'a> {
    pub(super) fn of(root: &'a Value) -> Self {
        let mut anchors = HashMap::new();
        gather_anchors(root, &mut anchors);
        Self { root, anchors }
    }

    /// The schema that a reference names, or why there is none.
    pub(super) fn find(&self, reference: &str) -> Result<&'a Value, String> {
        let missing = || format!("$ref {reference:?} names nothing in this schema");
        let Some(fragment) = reference.strip_prefix('#') else {
            return Err(format!(
                "$ref {reference:?} leaves this schema; refer to a part of it, such as \"#/$defs/name\""
            ));
        };
        let fragment = percent_decode(fragment).ok_or_else(missing)?;
        match fragment.as_str() {
            "" => Ok(self.root),
            pointer if pointer.starts_with('/') => self.root.pointer(pointer).ok_or_else(missing),
            anchor => self.anchors.get(anchor).copied().ok_or_else(missing),
        }
    }
}

fn gather_anchors<'a>(value: &'a Value, anchors: &mut HashMap<&'a str, &'a Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| gather_anchors(item, anchors)),
        Value::Object(fields) => {
            for keyword in ["$anchor", "$dynamicAnchor"] {
                if let Some(name) = fields.get(keyword).and_then(Value::as_str) {
                    anchors.insert(name, value);
                }
            }
            fields.values().for_each(|field| gather_anchors(field, anchors));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
