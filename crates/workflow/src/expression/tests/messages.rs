//! What people are told. The texts are kept, because others put them into consoles and answers.

use std::fmt::Write;

use serde_json::json;

use super::context;
use crate::expression::{Insert, Scope, Template};

const WRONG: &[&str] = &[
    "{{ user.id",
    "{{ }}",
    "{{ user.id + }}",
    "{{ user.id user.id }}",
    "{{ 1 = 2 }}",
    "{{ user.a-b.c }}",
    "{{ 1 < 2 < 3 }}",
    "{{ user.id is odd }}",
    "{{ 'a }}",
    r"{{ '\x' }}",
    "{{ user. }}",
    "{{ {a: 1} }}",
    "{{ 1 if true }}",
    "{{ 99999999999999999999 }}",
    "{{ secrets.key }}",
    "{{ user.id | shout }}",
    "{{ user.id | round(1, 2) }}",
    "{{ replace('a') }}",
    "{{ user.email | matches(user.email) }}",
    "{{ user.email | matches('(?=a)') }}",
    "one line\nand {{ steps.http_1.output.body.nope.deeper }}",
    "{{ webhook.payload.list | sort | first ~ variables.nope }}",
    "{{ [] | first }}",
    "{{ user.email + 1 }}",
    "{{ user.email * user.email }}",
    "{{ user.email < 1 }}",
    "{{ -user.email }}",
    "{{ user[true] }}",
    "{{ 1 in 2 }}",
    "{{ 1 | upper }}",
    "{{ user.email | abs }}",
    "{{ user | sum }}",
    "{{ int(user.email) }}",
    "{{ from_json(user.email) }}",
    "{{ from_json(repeat('[', 200) ~ repeat(']', 200)) }}",
    "{{ 1 / 0 }}",
    "{{ 9223372036854775807 + variables.user_age }}",
    "{{ 1e308 * 10 }}",
    "{{ repeat(user.email, 1000000000) }}",
    "{{ repeat('a', 300000) }}",
];

#[test]
fn messages_say_what_and_where() {
    let mut told = String::new();
    for text in WRONG {
        let error = Template::compile(text, Scope::workflow()).and_then(|template| template.value(&context()));
        let error = error.expect_err(text);
        writeln!(told, "{text:?}\n  {} {error}", error.code()).unwrap();
    }
    for (text, insert) in [
        ("/{{ user }}", Insert::UrlPart),
        ("/{{ '..' }}", Insert::UrlPart),
        (r"{{ 'a\n' }}", Insert::HeaderValue),
        (r"{{ '\u0000' }}", Insert::ArgvItem),
        ("[{{ user }}", Insert::Json),
    ] {
        let error = Template::compile(text, Scope::workflow()).unwrap().text(&context(), insert).expect_err(text);
        writeln!(told, "{text:?} as {insert:?}\n  {} {error}", error.code()).unwrap();
    }
    let mut context = context();
    for name in ["", "__proto__", "steps", "a b", &"a".repeat(200)] {
        let error = context.set_variable(name, json!(1)).expect_err(name);
        writeln!(told, "variable {name:.9}\n  {} {error}", error.code()).unwrap();
    }
    insta::assert_snapshot!(told);
}

#[test]
fn messages_never_show_values() {
    for text in WRONG {
        let error = Template::compile(text, Scope::workflow()).and_then(|template| template.value(&context()));
        let told = format!("{0} {0:?}", error.expect_err(text));
        for value in ["user@example", "f237bcb0", "Ольга", "{{secrets"] {
            assert!(!told.contains(value), "{told}");
        }
    }
}
