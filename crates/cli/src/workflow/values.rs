//! Values from the command line: what can be read as JSON is JSON, the rest is text.

use std::path::Path;

use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::source;

/// `3` is a number, `true` is a truth, `[1]` is a list, `a b` is a text; `"3"` in quotes is a text as well.
pub fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// Reads `name=value`.
pub fn pair(text: &str) -> Result<(String, Value), String> {
    match text.split_once('=') {
        Some((name, text)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value(&source::value(text.trim())?)))
        }
        _ => Err("a name, = and a value are expected, such as total=5".to_owned()),
    }
}

/// JSON from the command line; `@file` is the text of a file, `@-` is standard input.
pub fn json(what: &str, text: &str) -> Result<Value, Failure> {
    let read;
    let text = match text.strip_prefix('@') {
        Some(path) => {
            read = source::read(Path::new(path))?;
            &read
        }
        None => text,
    };
    serde_json::from_str(text).map_err(|error| Failure::Usage(format!("{what} is not JSON: {error}")))
}

/// What a run is given: `--input`, with every `--set` added to it.
pub fn input(json_text: Option<&str>, set: &[(String, Value)]) -> Result<Option<Value>, Failure> {
    let input = json_text.map(|text| json("--input", text)).transpose()?;
    if set.is_empty() {
        return Ok(input);
    }
    let mut fields = match input {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(fields)) => fields,
        Some(_) => return Err(Failure::Usage("--set adds to an object, and --input is none".to_owned())),
    };
    fields.extend(set.iter().cloned());
    Ok(Some(Value::Object(fields)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_what_they_look_like() {
        let read = ["n=3", "t=a b", "q=\"3\"", "l=[1, 2]", "e=", "x=a=b"].map(|text| pair(text).unwrap().1);
        assert_eq!(read, [json!(3), json!("a b"), json!("3"), json!([1, 2]), json!(""), json!("a=b")]);
        assert!(pair("n").is_err() && pair("=1").is_err());
    }

    #[test]
    fn what_is_set_is_added_to_the_input() {
        let set = [("b".to_owned(), json!(2))];
        assert_eq!(input(Some("{\"a\": 1}"), &set).unwrap(), Some(json!({"a": 1, "b": 2})));
        assert_eq!(input(None, &set).unwrap(), Some(json!({"b": 2})));
        assert_eq!(input(None, &[]).unwrap(), None);
        assert!(matches!(input(Some("[1]"), &set), Err(Failure::Usage(_))));
        assert!(matches!(input(Some("{"), &[]), Err(Failure::Usage(_))));
    }
}
