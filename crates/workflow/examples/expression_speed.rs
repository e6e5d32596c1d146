//! How many expressions one core evaluates in a second.
//!
//! `cargo run --release -p bowline-workflow --example expression_speed`

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use bowline_workflow::expression::{Context, Insert, Scope, Template, TemplateTree};
use serde_json::json;

fn main() {
    let mut context = Context::new(
        json!({"payload": {"test": "a value", "lines": (0..1_000).map(|n| json!({"n": n})).collect::<Vec<_>>()}}),
        json!({"id": 2, "email": "user@example.com"}),
        json!({"id": "f237bcb0-0b59-48e5-a2a2-85e668748c8b"}),
    );
    for step in 0..10_000 {
        context
            .set_output(&format!("http_{step}"), json!({"status_code": 200, "body": {"userId": step, "balance": 500}}));
    }
    context.set_variable("user_age", json!(25)).expect("a good name");

    for text in [
        "{{ variables.user_age }}",
        "{{ steps.http_5000.output.body.balance }}",
        "{{ steps.http_1.output.status_code == 200 and variables.user_age > 18 }}",
        "{{ (steps.http_1.output.body.balance * 12 + 3) / 2 }}",
        "{{ user.email | lower | replace('@', ' at ') }}",
        "Hello {{ user.email }}, you have {{ steps.http_1.output.body.balance }} left",
        "{{ webhook.payload.missing | default('nothing') }}",
        "{{ user.email | matches('^[a-z]+@example') }}",
    ] {
        let template = Template::compile(text, Scope::workflow()).expect("a good text");
        report(text, || drop(black_box(template.value(&context))));
    }

    let address = "https://api.example.com/users/{{ steps.http_7.output.body.userId }}?mail={{ user.email }}";
    let template = Template::compile(address, Scope::workflow()).expect("a good text");
    report(address, || drop(black_box(template.text(&context, Insert::Url))));

    let tree = json!({"url": "https://example.com/{{ user.id }}", "body": {"age": "{{ variables.user_age }}", "fixed": [1, 2]}});
    let tree = TemplateTree::compile(&tree, Scope::workflow()).expect("a good tree");
    report("a tree with two places", || drop(black_box(tree.value(&context))));

    report("compile a path", || {
        drop(black_box(Template::compile("{{ steps.http_1.output.body }}", Scope::workflow())));
    });

    // Without a pattern of its own, which is what patterns find hardest.
    let mut state = 1_u64;
    let noise: String = (0..200 * 1024)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if state >> 63 == 0 { 'a' } else { 'b' }
        })
        .collect();
    context.set_variable("v", json!(&noise)).expect("a good name");
    for text in [
        "{{ variables.v | replace('a', variables.v) }}",
        "{{ variables.v | replace('a', 'aaaa') | upper }}",
        "{{ variables.v | split('a') }}",
        "{{ variables.v | matches('(a+)+!$') }}",
        "{{ variables.v | matches('(.*)(.*)(.*)x$') }}",
        "{{ variables.v | matches('[^x]{0,60}[^y]{0,60}z') }}",
        "{{ variables.v | matches('[ab]a.{0,80}[ab].{0,80}[c-z]') }}",
        "{{ variables.v | matches('([ab]|.|aab){0,60}[c-z][^a]$') }}",
        r"{{ variables.v | matches('(?s)a.{0,80}b.{0,80}c') }}",
        "{{ variables.v | matches('a{0,50}a{0,50}x') }}",
    ] {
        let template = Template::compile(text, Scope::workflow()).expect("a good text");
        report(text, || drop(black_box(template.value(&context))));
    }

    // As much text as the budget lets the hardest patterns look at.
    for (bytes, pattern) in [
        (39_000, "[ab]a[ab]{0,40}b[ab]{0,40}[c-z]"),
        (19_000, "[ab]a.{0,20}[ab].{0,20}[c-z]"),
        (4_900, "[ab]a.{0,80}[ab].{0,80}[c-z]"),
    ] {
        context.set_variable("v", json!(&noise[..bytes])).expect("a good name");
        let text = format!("{{{{ variables.v | matches('{pattern}') }}}}");
        let template = Template::compile(&text, Scope::workflow()).expect("a good text");
        template.value(&context).expect("just within the budget");
        report(&format!("{text} on {bytes} bytes"), || drop(black_box(template.value(&context))));
    }

    let item = Arc::new(json!({"n": 1}));
    report("one turn of a loop", || drop(black_box(context.at_item(Arc::clone(&item), 1))));
    let mut number = 0_u64;
    report("one more output, beside 10,000, with a copy kept", || {
        let kept = context.clone();
        number += 1;
        context.set_output(&format!("http_{}", number % 10_000), json!(number));
        drop(black_box(kept));
    });
}

/// Calls `work` for about half a second.
fn report(what: &str, mut work: impl FnMut()) {
    let start = Instant::now();
    let mut done = 0_u32;
    while start.elapsed() < Duration::from_millis(500) {
        for _ in 0..100 {
            work();
        }
        done += 100;
    }
    let elapsed = start.elapsed();
    println!("{:>11.0}/s  {:>6} ns  {what}", f64::from(done) / elapsed.as_secs_f64(), (elapsed / done).as_nanos());
}
