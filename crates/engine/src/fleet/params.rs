//! Parameters of a command, held against the JSON Schema of its type.
//!
//! Schemas come from tenants: patterns are matched by an engine that takes linear time, and nothing outside of the schema
//! is ever fetched.

use bowline_model::host::Vars;
use bowline_model::resource::BadSpec;
use serde_json::Value;

/// What is wrong with parameters, each with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.0.join("; "))]
pub struct BadParams(pub Vec<String>);

/// Mistakes that are named at once.
const NAMED_MAX: usize = 10;
/// Bytes of a message that quotes what was sent.
const QUOTED_MAX: usize = 300;

fn compile(schema: &Value) -> Result<jsonschema::Validator, String> {
    jsonschema::options()
        .with_pattern_options(jsonschema::PatternOptions::regex())
        .build(schema)
        .map_err(|error| error.to_string())
}

/// Whether this is the schema of an object.
pub fn check_schema(path: &str, schema: &Value) -> Result<(), BadSpec> {
    let bad = |what: String| BadSpec::at(path, what);
    if !schema.is_object() {
        return Err(bad("must be a JSON Schema, which is an object".to_owned()));
    }
    match schema.get("type") {
        None => {}
        Some(Value::String(kind)) if kind == "object" => {}
        Some(_) => return Err(bad("parameters are an object, so `type` is \"object\"".to_owned())),
    }
    compile(schema).map(drop).map_err(|what| bad(format!("not a JSON Schema: {what}")))
}

/// The parameters with the schema's defaults filled in, if they fit it.
pub fn check_params(schema: Option<&Value>, mut params: Vars) -> Result<Vars, BadParams> {
    let Some(schema) = schema else {
        return match params.keys().next() {
            None => Ok(params),
            Some(name) => Err(BadParams(vec![format!("params.{name}: this command has no parameters")])),
        };
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if let (false, Some(default)) = (params.contains_key(name), property.get("default")) {
            params.insert(name.clone(), default.clone());
        }
    }
    if let (Some(properties), None) = (properties, schema.get("additionalProperties"))
        && !schema.as_object().is_some_and(|schema| schema.contains_key("patternProperties"))
        && let Some(name) = params.keys().find(|name| !properties.contains_key(*name))
    {
        // A misspelt parameter is a mistake, not an extra.
        return Err(BadParams(vec![format!("params.{name}: there is no such parameter")]));
    }
    let validator = compile(schema).map_err(|what| BadParams(vec![format!("params: the schema is broken: {what}")]))?;
    let value = Value::Object(params);
    let mistakes: Vec<String> = validator
        .iter_errors(&value)
        .take(NAMED_MAX)
        .map(|error| {
            let place = error.instance_path().to_string().replace('/', ".");
            let mut what = error.to_string();
            if what.len() > QUOTED_MAX {
                let end = (0..=QUOTED_MAX).rev().find(|n| what.is_char_boundary(*n)).unwrap_or(0);
                what.truncate(end);
                what.push('…');
            }
            format!("params{place}: {what}")
        })
        .collect();
    match value {
        Value::Object(params) if mistakes.is_empty() => Ok(params),
        _ => Err(BadParams(mistakes)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Vars {
        value.as_object().cloned().expect("an object")
    }

    fn check(schema: Value, params: Value) -> Result<Value, String> {
        check_params(Some(&schema), object(params)).map(Value::Object).map_err(|e| e.to_string())
    }

    #[test]
    fn parameters_are_checked_and_completed() {
        let schema = json!({
            "type": "object",
            "properties": {"user": {"type": "string", "pattern": "^[a-z]+$"}, "n": {"type": "integer", "default": 3}},
            "required": ["user"],
        });
        assert!(check_schema("params", &schema).is_ok());
        assert_eq!(check(schema.clone(), json!({"user": "ann"})), Ok(json!({"user": "ann", "n": 3})));
        for (params, named) in [
            (json!({}), "user"),
            (json!({"user": "Ann"}), "params.user"),
            (json!({"user": "ann", "n": "x"}), "params.n"),
            (json!({"user": "ann", "usr": "x"}), "params.usr: there is no such parameter"),
        ] {
            let error = check(schema.clone(), params.clone()).expect_err("it does not fit");
            assert!(error.contains(named), "{params}: {error}");
        }
    }

    #[test]
    fn a_command_without_a_schema_has_no_parameters() {
        assert!(check_params(None, Vars::new()).is_ok());
        assert!(check_params(None, object(json!({"a": 1}))).is_err());
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for schema in [json!(true), json!({"type": "string"}), json!({"type": "objekt"}), json!({"properties": []})] {
            assert!(check_schema("params", &schema).is_err(), "{schema}");
        }
        let remote = json!({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/schema.json"}}});
        assert!(check_schema("params", &remote).is_err(), "nothing is fetched");
    }

    #[test]
    fn a_pattern_cannot_run_away() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "(a+)+$"}}});
        let error = check(schema, json!({"a": "a".repeat(100_000) + "b"})).expect_err("it does not fit");
        assert!(error.len() < 1_000, "what was sent is not repeated whole");
        let looks_ahead = json!({"type": "object", "properties": {"a": {"pattern": "(?=x)"}}});
        assert!(check_schema("params", &looks_ahead).is_err());
    }
}
