//! What a task works on: JSON, exactly as somebody wrote it.

use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// JSON as a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload(Arc<str>);

impl Payload {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn to_arc(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl From<&Value> for Payload {
    fn from(value: &Value) -> Self {
        Self(value.to_string().into())
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self(Arc::from(Box::<str>::from(raw))))
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl JsonSchema for Payload {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        Value::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Value::json_schema(generator)
    }

    fn inline_schema() -> bool {
        Value::inline_schema()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_payload_is_its_text() {
        let payload = Payload::from(&json!({"a": 1}));
        assert_eq!((payload.as_str(), &*payload.to_arc()), ("{\"a\":1}", "{\"a\":1}"));
    }

    #[test]
    fn a_payload_is_any_json_to_a_reader_of_schemas() {
        assert_eq!(schemars::schema_for!(Vec<Payload>), schemars::schema_for!(Vec<Value>));
    }
}
