//! What holds for every text and every value.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::context;
use crate::expression::{Context, Insert, Scope, Template, TemplateTree, limits::RESULT_BYTES_MAX};

/// Far above what anything costs, and far below what a text that escapes its budget costs.
const EVALUATION_MAX: Duration = Duration::from_secs(2);

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|float| json!(float)),
        ".{0,12}".prop_map(Value::from),
        "[{}%# a-z.]{0,16}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z{}]{0,4}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Pieces of the language in any order, so that more than a few of the texts are expressions.
fn any_expression() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "user",
        "webhook",
        "steps",
        "variables",
        ".v",
        ".payload",
        ".list",
        ".id",
        "[0]",
        "[-1]",
        "['v']",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "'a'",
        "\"b\"",
        "1",
        "0",
        "2.5",
        "-",
        "+",
        "*",
        "/",
        "//",
        "%",
        "~",
        "|",
        "upper",
        "length",
        "default(1)",
        "sort",
        "join(',')",
        "json",
        "from_json",
        "repeat(9)",
        "replace('a','bb')",
        "split('a')",
        "min",
        "sum",
        "round",
        "abs",
        "int",
        "string",
        "unique",
        "first",
        "keys",
        "values",
        " and ",
        " or ",
        " not ",
        " in ",
        " is ",
        "defined",
        " if ",
        " else ",
        "==",
        "<",
        ",",
        ":",
        "true",
        "null",
        "}}",
        "{{",
        "9223372036854775807",
        "1e308",
        "matches('a+')",
        "\\",
        "é",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn holding(value: Value) -> Context {
    let mut context = context();
    context.set_variable("v", value).unwrap();
    context
}

/// Renders in every way there is. The answers do not matter; that there are some does.
fn render_everywhere(text: &str, context: &Context) {
    let start = Instant::now();
    for scope in [Scope::workflow(), Scope::within_loop()] {
        for template in [Template::compile(text, scope), Template::condition(text, scope)].into_iter().flatten() {
            if let Ok(value) = template.value(context) {
                assert!(template.as_literal().is_some() || value.to_string().len() <= RESULT_BYTES_MAX * 6);
            }
            let _ = template.holds(context);
            for insert in
                [Insert::Text, Insert::Url, Insert::UrlPart, Insert::HeaderValue, Insert::ArgvItem, Insert::Json]
            {
                let _ = template.text(context, insert);
            }
        }
    }
    assert!(start.elapsed() < EVALUATION_MAX, "{text:?} took {:?}", start.elapsed());
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,80}", value in any_json()) {
        render_everywhere(&text, &holding(value));
    }

    #[test]
    fn no_expression_panics(expression in any_expression(), value in any_json()) {
        let context = holding(value);
        render_everywhere(&expression, &context);
        render_everywhere(&format!("{{{{{expression}}}}}"), &context);
        render_everywhere(&format!("<{{{{{expression}}}}}>"), &context);
    }

    #[test]
    fn a_value_comes_out_as_it_went_in(value in any_json()) {
        let context = holding(value.clone());
        let template = Template::compile("{{ variables.v }}", Scope::workflow()).unwrap();
        prop_assert_eq!(template.value(&context).unwrap(), value.clone());
        let tree = TemplateTree::compile(&json!({"a": ["{{ variables.v }}"]}), Scope::workflow()).unwrap();
        prop_assert_eq!(tree.value(&context).unwrap().into_owned(), json!({"a": [value]}));
    }

    #[test]
    fn a_text_with_braces_is_inserted_as_it_is(value in "[{}%#a-z. ]{0,24}") {
        let context = holding(json!(value));
        let template = Template::compile("<{{ variables.v }}>", Scope::workflow()).unwrap();
        prop_assert_eq!(template.text(&context, Insert::Text).unwrap(), format!("<{value}>"));
    }

    #[test]
    fn an_escaped_text_renders_as_itself(text in "[{}a ]{0,24}|\\PC{0,24}") {
        let template = Template::compile(&Template::escape(&text), Scope::workflow()).unwrap();
        prop_assert_eq!(template.as_literal(), Some(text.as_str()));
    }

    #[test]
    fn a_json_insertion_is_the_value_again(value in any_json()) {
        let template = Template::compile(r#"{"a": {{ variables.v }}}"#, Scope::workflow()).unwrap();
        let text = template.text(&holding(value.clone()), Insert::Json).unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        // Reading a float may miss its last bit.
        prop_assert_eq!(read["a"].is_f64() || read["a"] == value || value.to_string().contains(['.', 'e']), true);
    }

    #[test]
    fn an_encoded_part_has_no_sign_that_means_something(value in "\\PC{0,24}") {
        let template = Template::compile("{{ variables.v }}", Scope::workflow()).unwrap();
        if let Ok(text) = template.text(&holding(json!(value)), Insert::UrlPart) {
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte)), "{}", text);
        }
    }

    #[test]
    fn integers_are_calculated_exactly(left: i64, right: i64) {
        let mut context = holding(json!(left));
        context.set_variable("w", json!(right)).unwrap();
        for (sign, expected) in [
            ("+", left.checked_add(right)),
            ("-", left.checked_sub(right)),
            ("*", left.checked_mul(right)),
        ] {
            let template = Template::condition(&format!("variables.v {sign} variables.w"), Scope::workflow()).unwrap();
            prop_assert_eq!(template.value(&context).ok(), expected.map(Value::from));
        }
    }

    #[test]
    fn division_and_remainder_belong_together(left: i32, right in any::<i32>().prop_filter("not zero", |n| *n != 0)) {
        let mut context = holding(json!(left));
        context.set_variable("w", json!(right)).unwrap();
        let text = "variables.v // variables.w * variables.w + variables.v % variables.w == variables.v";
        let template = Template::condition(text, Scope::workflow()).unwrap();
        prop_assert!(template.holds(&context).unwrap());
    }
}
