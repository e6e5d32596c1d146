//! A value stays a value wherever it is inserted.

use serde_json::{Value, json};

use crate::expression::{Context, ErrorCode, ExpressionError, Insert, Scope, Template};

fn insert(text: &str, value: Value, insert: Insert) -> Result<String, ExpressionError> {
    let mut context = Context::new(json!({}), json!({}), json!({}));
    context.set_variable("v", value).unwrap();
    Template::compile(text, Scope::workflow()).unwrap().text(&context, insert)
}

#[track_caller]
fn refused(text: &str, value: Value, how: Insert) {
    assert_eq!(insert(text, value, how).unwrap_err().code(), ErrorCode::RefusedHere);
}

#[test]
fn addresses_have_their_values_encoded() {
    let text = "https://example.com/u/{{ variables.v }}?q={{ variables.v }}";
    for how in [Insert::Url, Insert::UrlPart] {
        assert_eq!(
            insert(text, json!("a/b?c&d=#é %2f"), how).unwrap().matches("a%2Fb%3Fc%26d%3D%23%C3%A9%20%252f").count(),
            2
        );
        assert_eq!(insert(text, json!(1.5), how).unwrap(), "https://example.com/u/1.5?q=1.5");
        assert_eq!(insert(text, json!("A-z_0.9~"), how).unwrap(), "https://example.com/u/A-z_0.9~?q=A-z_0.9~");
        for value in [json!("."), json!(".."), json!(null), json!([1]), json!({})] {
            refused(text, value, how);
        }
    }
    assert_eq!(insert("{{ variables.v }}", json!("a/b"), Insert::UrlPart).unwrap(), "a%2Fb");
}

#[test]
fn an_address_may_begin_with_a_value() {
    let base = json!("https://example.com/api");
    assert_eq!(insert("{{ variables.v }}/x", base.clone(), Insert::Url).unwrap(), "https://example.com/api/x");
    assert_eq!(insert("{{ variables.v }}", base.clone(), Insert::Url).unwrap(), "https://example.com/api");
    // What goes on behind it would be another host.
    assert_eq!(
        insert("{{ variables.v }}.example.com/", json!("evil.com/"), Insert::Url).unwrap(),
        "evil.com%2F.example.com/"
    );
    assert_eq!(insert("https://{{ variables.v }}/", json!("a@b:1"), Insert::Url).unwrap(), "https://a%40b%3A1/");
    refused("{{ variables.v }}/x", json!("https://a\r\nb"), Insert::Url);
}

#[test]
fn headers_have_one_line() {
    assert_eq!(insert("Bearer {{ variables.v }}", json!("a\tb é"), Insert::HeaderValue).unwrap(), "Bearer a\tb é");
    for bad in ["a\rb", "a\nb", "a\0b", "a\u{7f}", "a\u{1b}["] {
        refused("Bearer {{ variables.v }}", json!(bad), Insert::HeaderValue);
    }
    refused("a\n{{ variables.v }}", json!("a"), Insert::HeaderValue);
    refused("{{ variables.v }}", json!([1]), Insert::HeaderValue);
}

#[test]
fn an_argument_is_one_argument() {
    let nasty = "a b'\"; $(rm -rf /)\n*";
    assert_eq!(insert("--name={{ variables.v }}", json!(nasty), Insert::ArgvItem).unwrap(), format!("--name={nasty}"));
    refused("{{ variables.v }}", json!("a\0b"), Insert::ArgvItem);
    refused("{{ variables.v }}", json!({"a": 1}), Insert::ArgvItem);
    assert_eq!(insert("{{ variables.v | json }}", json!({"a": 1}), Insert::ArgvItem).unwrap(), r#"{"a":1}"#);
}

#[test]
fn json_stays_json() {
    let text = r#"{"a": {{ variables.v }}, "b": "x {{ variables.v }} \" {{ variables.v }}", "c": [{{ variables.v }}]}"#;
    for value in [json!("q\"\\\n{{"), json!(1), json!({"x": "\""}), json!(null), json!(["a", 1])] {
        let read: Value = serde_json::from_str(&insert(text, value.clone(), Insert::Json).unwrap()).unwrap();
        let written = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        assert_eq!(read, json!({"a": value, "b": format!("x {written} \" {written}"), "c": [value]}));
    }
    assert_eq!(insert("{{ variables.v }}", json!("x"), Insert::Json).unwrap(), "\"x\"");
    assert_eq!(insert("{ {{ variables.v }}", json!("x"), Insert::Json).unwrap_err().code(), ErrorCode::NotJson);
}
