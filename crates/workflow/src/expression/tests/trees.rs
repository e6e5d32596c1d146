//! Whole trees of JSON.

use std::borrow::Cow;

use serde_json::json;

use super::context;
use crate::expression::{ErrorCode, Scope, TemplateTree};

#[test]
fn all_texts_of_a_tree_are_rendered() {
    let tree = json!({
        "url": "https://example.com/{{ user.id }}",
        "body": {"age": "{{ variables.user_age }}", "list": ["{{ webhook.payload.list }}", 1, null]},
        "{{ user.id }}": "{{{{ literal }}",
    });
    let tree = TemplateTree::compile(&tree, Scope::workflow()).unwrap();
    assert_eq!(
        *tree.value(&context()).unwrap(),
        json!({
            "url": "https://example.com/2",
            "body": {"age": 25, "list": [[3, 1, 2], 1, null]},
            "{{ user.id }}": "{{ literal }}",
        })
    );
}

#[test]
fn a_tree_without_places_is_not_copied() {
    let json = json!({"a": [1, "x", {"b": null}], "text": "a".repeat(1024 * 1024)});
    let tree = TemplateTree::compile(&json, Scope::workflow()).unwrap();
    let context = context();
    let value = tree.value(&context).unwrap();
    assert!(matches!(value, Cow::Borrowed(_)));
    assert_eq!(*value, json);
}

#[test]
fn errors_and_references_point_into_the_tree() {
    let bad = json!({"a": [1, {"b/c~d": "x\n {{ nope }}"}]});
    let error = TemplateTree::compile(&bad, Scope::workflow()).unwrap_err();
    assert_eq!((error.code(), error.place().pointer.as_str()), (ErrorCode::UnknownName, "/a/1/b~1c~0d"));
    assert_eq!((error.place().offset, error.place().line, error.place().column), (6, 2, 5));

    let tree = json!({"a": ["{{ user.id }}", {"b/c": "{{ variables.nope }}"}]});
    let tree = TemplateTree::compile(&tree, Scope::workflow()).unwrap();
    let places: Vec<_> = tree.references().iter().map(|r| (r.place.pointer.as_str(), r.to_string())).collect();
    assert_eq!(places, [("/a/0", "user.id".to_owned()), ("/a/1/b~1c", "variables.nope".to_owned())]);
    let error = tree.value(&context()).unwrap_err();
    assert_eq!((error.code(), error.place().pointer.as_str()), (ErrorCode::MissingPath, "/a/1/b~1c"));
}

#[test]
fn a_tree_has_one_budget() {
    let mut context = context();
    context.set_variable("v", json!("a".repeat(100 * 1024))).unwrap();
    let wide = TemplateTree::compile(&json!(vec!["{{ variables.v }}"; 3]), Scope::workflow()).unwrap();
    assert_eq!(wide.value(&context).unwrap_err().code(), ErrorCode::ResultTooLarge);
    let busy = json!(vec!["{{ variables.v | upper | length }}"; 20]);
    let busy = TemplateTree::compile(&busy, Scope::workflow()).unwrap();
    assert_eq!(busy.value(&context).unwrap_err().code(), ErrorCode::BudgetExceeded);
}

#[test]
fn a_tree_that_is_too_deep_is_refused() {
    let deep = (0..100).fold(json!("{{ user.id }}"), |inner, _| json!([inner]));
    assert_eq!(TemplateTree::compile(&deep, Scope::workflow()).unwrap_err().code(), ErrorCode::TooDeep);
}
