//! Parameters of a command, checked against the JSON Schema of its type.
//!
//! Schemas come from tenants, so evaluating one has a budget: its unfolded size is bounded when it is stored and when it is
//! used (`size.rs`), the work for one instance is counted before it is done (`work.rs`), patterns are matched by an engine
//! that takes linear time, and nothing outside of the schema is ever fetched. What may take a while runs on a thread of its
//! own, with a time limit (`aside.rs`).

mod aside;
mod parts;
mod size;
mod work;

use bowline_model::host::Vars;
use bowline_model::resource::BadSpec;
use serde_json::Value;

pub use aside::{check_params, check_schema};

/// What is wrong with parameters, each with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.0.join("; "))]
pub struct BadParams(pub Vec<String>);

/// Errors that are named at once.
const NAMED_MAX: usize = 10;
/// Bytes of a message that quotes what was sent.
const QUOTED_MAX: usize = 300;
/// Memory that one compiled pattern may take.
const PATTERN_BYTES_MAX: usize = 256 << 10;
/// Memory that all compiled patterns of a schema may take together.
const PATTERNS_BYTES_MAX: usize = 16 << 20;

/// What each of so many patterns may take, so that all of them are within their budget.
fn bytes_of_pattern(patterns: usize) -> usize {
    (PATTERNS_BYTES_MAX / patterns.max(1)).min(PATTERN_BYTES_MAX)
}

fn options<'a>(patterns: usize) -> jsonschema::ValidationOptions<'a> {
    let patterns = jsonschema::PatternOptions::regex().size_limit(bytes_of_pattern(patterns)).dfa_size_limit(1 << 20);
    jsonschema::options().with_pattern_options(patterns)
}

/// Compiles a schema whose unfolded size is within its bound.
fn compile(schema: &Value) -> Result<jsonschema::Validator, String> {
    size::unfolded(schema).map_err(|what| format!("the schema {what}"))?;
    let patterns = size::patterns(schema);
    options(patterns).build(schema).map_err(|error| match patterns {
        0 => format!("not a JSON Schema: {error}"),
        _ => format!(
            "not a JSON Schema: {error} (each of its {patterns} patterns may have {} KiB once it is compiled)",
            bytes_of_pattern(patterns) / 1_024
        ),
    })
}

/// Whether evaluating this schema stays within its budget. Says what is wrong otherwise. For schemas that were stored before
/// there was one.
pub fn check_stored_schema(schema: &Value) -> Result<(), String> {
    size::unfolded(schema).map(drop)
}

/// Whether this is the schema of an object.
fn check_schema_here(path: &str, schema: &Value) -> Result<(), BadSpec> {
    let bad = |what: String| BadSpec::at(path, what);
    if !schema.is_object() {
        return Err(bad("must be a JSON Schema, which is an object".to_owned()));
    }
    match schema.get("type") {
        None => {}
        Some(Value::String(kind)) if kind == "object" => {}
        Some(_) => return Err(bad("parameters are an object, so `type` is \"object\"".to_owned())),
    }
    compile(schema).map(drop).map_err(bad)
}

/// The parameters with the schema's defaults filled in.
fn with_defaults(schema: &Value, mut params: Vars) -> Vars {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if let (false, Some(default)) = (params.contains_key(name), property.get("default")) {
            params.insert(name.clone(), default.clone());
        }
    }
    params
}

/// The parameters with the schema's defaults filled in, if they fit it.
fn check_params_here(schema: &Value, params: Vars) -> Result<Vars, BadParams> {
    let params = with_defaults(schema, params);
    let properties = schema.get("properties").and_then(Value::as_object);
    if let (Some(properties), None) = (properties, schema.get("additionalProperties"))
        && !schema.as_object().is_some_and(|schema| schema.contains_key("patternProperties"))
        && let Some(name) = params.keys().find(|name| !properties.contains_key(*name))
    {
        // A misspelt parameter is a mistake, not an extra.
        return Err(BadParams(vec![format!("params.{name}: there is no such parameter")]));
    }
    let validator = compile(schema).map_err(|what| BadParams(vec![format!("params: {what}")]))?;
    let value = Value::Object(params);
    work::work(schema, &value).map_err(|what| BadParams(vec![format!("params: {what}")]))?;
    if validator.is_valid(&value) {
        return match value {
            Value::Object(params) => Ok(params),
            _ => Ok(Vars::new()),
        };
    }
    let errors = validator.iter_errors(&value).take(NAMED_MAX).map(|error| {
        let place = error.instance_path().to_string().replace('/', ".");
        let mut what = error.to_string();
        if what.len() > QUOTED_MAX {
            let end = (0..=QUOTED_MAX).rev().find(|n| what.is_char_boundary(*n)).unwrap_or(0);
            what.truncate(end);
            what.push('…');
        }
        format!("params{place}: {what}")
    });
    Err(BadParams(errors.collect()))
}

#[cfg(test)]
mod budget_test;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Vars {
        value.as_object().cloned().expect("an object")
    }

    fn check(schema: Value, params: Value) -> Result<Value, String> {
        check_params_here(&schema, object(params)).map(Value::Object).map_err(|e| e.to_string())
    }

    #[test]
    fn parameters_are_checked_and_completed() {
        let schema = json!({
            "type": "object",
            "properties": {"user": {"type": "string", "pattern": "^[a-z]+$"}, "n": {"type": "integer", "default": 3}},
            "required": ["user"],
        });
        assert!(check_schema_here("params", &schema).is_ok());
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
    fn what_is_no_schema_is_refused() {
        for schema in [json!(true), json!({"type": "string"}), json!({"type": "objekt"}), json!({"properties": []})] {
            assert!(check_schema_here("params", &schema).is_err(), "{schema}");
        }
        let remote = json!({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/schema.json"}}});
        assert!(check_schema_here("params", &remote).is_err(), "nothing is fetched");
    }

    #[test]
    fn patterns_have_a_budget_together() {
        let schema = |count: usize| {
            let one = |n: usize| (format!("p{n}"), json!({"type": "string", "pattern": format!("^[a-z{n}]{{2000}}$")}));
            json!({"type": "object", "properties": (0..count).map(one).collect::<serde_json::Map<_, _>>()})
        };
        assert!(check_schema_here("params", &schema(10)).is_ok());
        let bad = check_schema_here("params", &schema(200)).expect_err("too much together");
        assert!(bad.what.contains("each of its 200 patterns"), "{bad}");
        for count in 0..=1_000 {
            assert!(bytes_of_pattern(count) * count <= PATTERNS_BYTES_MAX);
        }
    }

    #[test]
    fn a_pattern_cannot_run_away() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "(a+)+$"}}});
        let error = check(schema, json!({"a": "a".repeat(100_000) + "b"})).expect_err("it does not fit");
        assert!(error.len() < 1_000, "what was sent is not repeated whole");
        let looks_ahead = json!({"type": "object", "properties": {"a": {"pattern": "(?=x)"}}});
        assert!(check_schema_here("params", &looks_ahead).is_err());
    }

    /// `levels` definitions, each naming the next one twice.
    fn doubling(levels: usize, applicator: &str) -> Value {
        let mut defs = serde_json::Map::new();
        for n in 0..levels {
            let next = json!({"$ref": format!("#/$defs/a{}", n + 1)});
            let def = match applicator {
                "dependentSchemas" => json!({"dependentSchemas": {"x": next.clone(), "y": next}}),
                "if" => json!({"if": next.clone(), "then": next.clone(), "else": next}),
                "not" => json!({"not": {"not": {"allOf": [next.clone(), next]}}}),
                "patternProperties" => json!({"patternProperties": {"x": next.clone(), "y": next}}),
                "properties" => json!({"properties": {"x": next.clone(), "y": next}}),
                "unevaluatedProperties" => json!({"allOf": [next], "unevaluatedProperties": false}),
                all => json!({all: [next.clone(), next]}),
            };
            defs.insert(format!("a{n}"), def);
        }
        defs.insert(format!("a{levels}"), json!(false));
        json!({"type": "object", "additionalProperties": true, "$ref": "#/$defs/a0", "$defs": defs})
    }

    #[test]
    fn a_schema_that_unfolds_to_too_much_is_refused_when_stored_and_when_used() {
        for applicator in [
            "anyOf",
            "oneOf",
            "allOf",
            "not",
            "if",
            "dependentSchemas",
            "patternProperties",
            "properties",
            "unevaluatedProperties",
        ] {
            for levels in [26, 40] {
                let bomb = doubling(levels, applicator);
                let stored = check_schema_here("params", &bomb).expect_err(applicator).to_string();
                assert!(stored.contains("unfolds to") || stored.contains("deeper than"), "{applicator}: {stored}");
                let used = check(bomb, json!({"x": {"x": 1, "y": 1}, "y": 1})).expect_err(applicator);
                assert!(used.contains("unfolds to") || used.contains("deeper than"), "{applicator}: {used}");
            }
        }
        let small = doubling(5, "anyOf");
        assert!(check_schema_here("params", &small).is_ok());
        assert!(check(small, json!({"x": 1})).is_err_and(|error| error.contains("anyOf")));
    }

    #[test]
    fn recursion_moves_through_the_instance_or_is_refused() {
        let tree = json!({
            "type": "object",
            "properties": {"tree": {"$ref": "#/$defs/node"}},
            "$defs": {"node": {"type": "object", "properties": {"l": {"$ref": "#/$defs/node"}, "r": {"$ref": "#/$defs/node"}}}},
        });
        assert!(check_schema_here("params", &tree).is_ok());
        assert!(check(tree.clone(), json!({"tree": {"l": {"r": {}}, "r": {}}})).is_ok());
        assert!(check(tree, json!({"tree": {"l": {"r": 5}}})).is_err_and(|error| error.contains("params.tree.l.r")));
        for reference in ["#", "#/$defs/a", "#here"] {
            let endless = json!({
                "type": "object",
                "allOf": [{"$ref": reference}],
                "$anchor": "here",
                "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}},
            });
            let error = check_schema_here("params", &endless).expect_err("endless").to_string();
            assert!(error.contains("refers to itself without end"), "{error}");
        }
    }

    #[test]
    fn a_recursive_schema_is_bounded_by_the_instance() {
        // Each level of the instance doubles the work.
        let twice = json!({"properties": {"x": {"$ref": "#/$defs/a"}}});
        let schema = json!({
            "type": "object",
            "properties": {"x": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {"anyOf": [twice.clone(), twice, false]}},
        });
        assert!(check_schema_here("params", &schema).is_ok());
        let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!({"x": inner}));
        assert!(check(schema.clone(), nested(5)).is_ok());
        let error = check(schema, nested(40)).expect_err("2^40 steps");
        assert!(error.contains("more than 200000 steps"), "{error}");
    }

    #[test]
    fn instance_and_schema_are_bounded_together() {
        let names: Vec<String> = (0..3_000).map(|n| format!("v{n}")).collect();
        let schema = json!({"type": "object", "properties": {"list": {"items": {"enum": names}}}});
        assert!(check_schema_here("params", &schema).is_ok());
        assert!(check(schema.clone(), json!({"list": ["v1", "v2999"]})).is_ok());
        let error = check(schema, json!({"list": vec!["x"; 1_000]})).expect_err("three million comparisons");
        assert!(error.contains("steps"), "{error}");
    }

    #[test]
    fn a_reference_stays_inside_and_its_meaning_does_not_move() {
        for (part, named) in [
            (json!({"$ref": "https://json-schema.org/draft/2020-12/schema"}), "leaves this schema"),
            (json!({"$ref": "#/$defs/nothing"}), "names nothing"),
            (json!({"$dynamicRef": "#x"}), "$dynamicRef is not supported"),
            (json!({"$id": "http://a/b", "type": "object"}), "$id is supported at the top"),
            (json!({"pattern": "(\\w{500}){500}"}), "not a JSON Schema"),
        ] {
            let schema = json!({"type": "object", "properties": {"a": part}});
            let error = check_schema_here("params", &schema).expect_err(named).to_string();
            assert!(error.contains(named), "{error}");
        }
        let encoded = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a%20b"}}, "$defs": {"a b": {"type": "integer"}}});
        assert!(check_schema_here("params", &encoded).is_ok());
        assert!(check(encoded, json!({"a": "x"})).is_err());
    }
}
