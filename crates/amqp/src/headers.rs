//! Headers, as JSON on our side and as AMQP's tables on the broker's.
//!
//! What JSON has, AMQP has too, and it comes back as it was: null, bool, whole numbers of 64 bits with a sign, fractions, text,
//! lists, objects. What only AMQP has becomes the nearest thing when it is read: bytes become base64, moments become seconds,
//! decimals become text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lapin::types::{AMQPValue, FieldArray, FieldTable, LongString, ShortString};
use serde_json::{Map, Number, Value};

use crate::AmqpError;

/// Deep enough for people, and not for an attack on the stack.
const DEPTH_MAX: usize = 32;

pub(crate) fn to_table(headers: &Map<String, Value>, path: &str) -> Result<FieldTable, AmqpError> {
    table(headers, path, DEPTH_MAX)
}

fn table(headers: &Map<String, Value>, path: &str, depth: usize) -> Result<FieldTable, AmqpError> {
    let mut table = FieldTable::default();
    for (name, value) in headers {
        let here = format!("{path}.{name}");
        let key = ShortString::try_new(name.as_str());
        let key = key.map_err(|_| AmqpError::bad(path, "the name of a header has at most 255 bytes"))?;
        table.insert(key, to_amqp(value, &here, depth)?);
    }
    Ok(table)
}

fn to_amqp(value: &Value, path: &str, depth: usize) -> Result<AMQPValue, AmqpError> {
    let deeper = depth.checked_sub(1).ok_or_else(|| AmqpError::bad(path, "headers are nested too deep"))?;
    Ok(match value {
        Value::Null => AMQPValue::Void,
        Value::Bool(value) => AMQPValue::Boolean(*value),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => AMQPValue::LongLongInt(whole),
            (None, Some(fraction)) if !number.is_u64() => AMQPValue::Double(fraction),
            _ => return Err(AmqpError::bad(path, "a whole number in a header has at most 63 bits")),
        },
        Value::String(text) => AMQPValue::LongString(LongString::from(text.as_str())),
        Value::Array(items) => {
            let mut list = FieldArray::default();
            for (index, item) in items.iter().enumerate() {
                list.push(to_amqp(item, &format!("{path}[{index}]"), deeper)?);
            }
            AMQPValue::FieldArray(list)
        }
        Value::Object(fields) => AMQPValue::FieldTable(table(fields, path, deeper)?),
    })
}

pub(crate) fn from_table(table: &FieldTable) -> Map<String, Value> {
    table.into_iter().map(|(name, value)| (name.to_string(), from_amqp(value))).collect()
}

fn from_amqp(value: &AMQPValue) -> Value {
    let float = |number: f64| Number::from_f64(number).map_or(Value::Null, Value::Number);
    match value {
        AMQPValue::Boolean(value) => Value::Bool(*value),
        AMQPValue::ShortShortInt(number) => (*number).into(),
        AMQPValue::ShortShortUInt(number) => (*number).into(),
        AMQPValue::ShortInt(number) => (*number).into(),
        AMQPValue::ShortUInt(number) => (*number).into(),
        AMQPValue::LongInt(number) => (*number).into(),
        AMQPValue::LongUInt(number) => (*number).into(),
        AMQPValue::LongLongInt(number) => (*number).into(),
        AMQPValue::Float(number) => float(f64::from(*number)),
        AMQPValue::Double(number) => float(*number),
        AMQPValue::DecimalValue(decimal) => Value::String(format!("{}e-{}", decimal.value, decimal.scale)),
        AMQPValue::ShortString(text) => Value::String(text.to_string()),
        AMQPValue::LongString(text) => match std::str::from_utf8(text.as_bytes()) {
            Ok(text) => Value::String(text.to_owned()),
            Err(_) => Value::String(STANDARD.encode(text.as_bytes())),
        },
        AMQPValue::FieldArray(items) => Value::Array(items.as_slice().iter().map(from_amqp).collect()),
        AMQPValue::Timestamp(seconds) => (*seconds).into(),
        AMQPValue::FieldTable(table) => Value::Object(from_table(table)),
        AMQPValue::ByteArray(bytes) => Value::String(STANDARD.encode(bytes.as_slice())),
        AMQPValue::Void => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        let Value::Object(fields) = value else { panic!("an object") };
        fields
    }

    #[test]
    fn what_json_has_comes_back_as_it_was() {
        let headers =
            object(json!({"a": null, "b": true, "c": -7, "d": i64::MAX, "e": 1.5, "f": "ü", "g": [1, "x", {"h": []}]}));
        assert_eq!(from_table(&to_table(&headers, "headers").unwrap()), headers);
    }

    #[test]
    fn what_amqp_cannot_say_is_named_by_its_place() {
        let place = |value| match to_table(&object(value), "headers") {
            Err(AmqpError::BadMessage { path, .. }) => path,
            other => panic!("{other:?}"),
        };
        assert_eq!(place(json!({"a": {"b": [0, u64::MAX]}})), "headers.a.b[1]");
        assert_eq!(place(json!({"x".repeat(256): 1})), "headers");
        let mut deep = json!(1);
        for _ in 0..40 {
            deep = json!([deep]);
        }
        assert!(place(json!({"a": deep})).starts_with("headers.a[0]"));
    }
}
