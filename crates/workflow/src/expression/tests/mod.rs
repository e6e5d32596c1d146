//! What the language promises, feature by feature, and what it does with bad input.

mod bad_input;
mod insertion;
mod language;
mod messages;
mod properties;
mod trees;
mod visits;

use serde_json::{Value, json};

use super::{Context, ErrorCode, ExpressionError, Scope, Template};

/// What most of these tests look at.
fn context() -> Context {
    let mut context = Context::new(
        json!({"payload": {"test": "a value", "empty": "", "n": null, "list": [3, 1, 2], "braces": "{{secrets.x}}"}}),
        json!({"id": 2, "email": "user@example.com"}),
        json!({"id": "f237bcb0-0b59-48e5-a2a2-85e668748c8b"}),
    );
    context
        .set_output("http_1", json!({"status_code": 200, "body": {"userId": 123, "balance": 500, "a-b": [10, [11]]}}));
    context.set_variable("user_age", json!(25)).unwrap();
    context.set_variable("price", json!(99.5)).unwrap();
    context.set_variable("large", json!(u64::MAX)).unwrap();
    context.set_variable("which", json!("http_1")).unwrap();
    context.set_variable("имя", json!("Ольга")).unwrap();
    context
}

/// The value of a text.
fn value_of(text: &str) -> Result<Value, ExpressionError> {
    Template::compile(text, Scope::workflow())?.value(&context())
}

/// The value of an expression.
#[track_caller]
fn eval(expression: &str) -> Value {
    value_of(&format!("{{{{ {expression} }}}}")).unwrap_or_else(|error| panic!("{expression}: {error}"))
}

/// What is wrong with an expression.
#[track_caller]
fn refused(expression: &str) -> ErrorCode {
    match value_of(&format!("{{{{ {expression} }}}}")) {
        Ok(value) => panic!("{expression} is {value}"),
        Err(error) => error.code(),
    }
}
