//! Nodes that are done at once.

use serde_json::json;

use super::*;

#[test]
fn a_condition_of_the_seed_takes_the_edge_of_its_answer() {
    let config = |status: u32| json!({"expression": format!("{{{{steps.before.output.status_code}}}} == {status}")});
    let yes = done(enter("condition", config(200)));
    assert_eq!((yes.output, yes.exit), (json!({"result": true}), port("true")));
    let no = done(enter("condition", config(404)));
    assert_eq!((no.output, no.exit), (json!({"result": false}), port("false")));
}

#[test]
fn what_is_missing_is_a_failure_that_names_the_field() {
    let error = enter("condition", json!({"expression": "steps.before.output.nothing == 1"})).unwrap_err();
    assert_eq!(error.class, ErrorClass::Permanent);
    assert!(error.message.starts_with("expression: line 1, column 1: there is no"), "{}", error.message);
    let error = enter("transform", json!({"value": {"a": [1, "{{ user.nobody }}"]}})).unwrap_err();
    assert!(error.message.starts_with("value.a[1]: line 1, column 4"), "{}", error.message);
}

#[test]
fn a_switch_takes_the_first_case_that_fits() {
    let switch = |value: Value, default: Value| {
        let mut config = json!({"value": value, "cases": [
            {"name": "four", "equals": 4},
            {"name": "four again", "equals": "{{ variables.count }}"},
            {"name": "cheap", "when": "variables.price < 50"},
            {"name": "text", "equals": {"a": [1]}},
        ]});
        if !default.is_null() {
            config["default"] = default;
        }
        enter("switch", config)
    };
    assert_eq!(done(switch(json!("{{ variables.count }}"), json!(null))).exit, port("four"));
    assert_eq!(done(switch(json!(4.0), json!(null))).exit, port("four"));
    assert_eq!(done(switch(json!({"a": [1.0]}), json!(null))).exit, port("text"));
    let other = done(switch(json!("5"), json!("other")));
    assert_eq!((other.output, other.exit), (json!({"case": "other"}), port("other")));
    assert_eq!(switch(json!("5"), json!(null)).unwrap_err().message, "no case fits, and there is no default");
}

#[test]
fn variables_are_set_and_shown() {
    let one = done(enter("variable_set", json!({"name": "x", "value": "{{ variables.count }}"})));
    assert_eq!((one.output, one.set), (json!({"x": 4}), vec![("x".into(), json!(4))]));
    let nothing = done(enter("variable_set", json!({"name": "x", "value": null})));
    assert_eq!(nothing.set, [("x".into(), json!(null))]);
    // All see the variables as they were.
    let config = json!({"variables": {"count": 1, "twice": "{{ variables.count * 2 }}"}});
    assert_eq!(done(enter("variable_set", config)).output, json!({"count": 1, "twice": 8}));
}

#[test]
fn a_variable_that_is_too_deep_is_refused_before_it_is_set() {
    let mut deep = json!("{{ variables.count }}");
    for _ in 0..62 {
        deep = json!([deep]);
    }
    assert!(enter("variable_set", json!({"name": "x", "value": deep})).is_ok());
    let large = json!({"name": "x", "value": "{{ repeat('aaaaaaaaaaaaaaaa', 20000) }}"});
    assert!(enter("variable_set", large).unwrap_err().message.contains("bytes"));
}

#[test]
fn an_end_says_how_it_ended() {
    let well = done(enter("end", json!({})));
    assert_eq!((well.output, well.exit), (json!(null), Exit::End { failed: false }));
    let badly = json!({"output": {"left": "{{ variables.count }}"}, "failed": "variables.count > 3", "message": "{{ variables.count }} left"});
    let badly = done(enter("end", badly));
    assert_eq!(badly.output, json!({"left": 4, "message": "4 left"}));
    assert_eq!(badly.exit, Exit::End { failed: true });
    let wrapped = done(enter("end", json!({"output": [1], "message": "m"})));
    assert_eq!(wrapped.output, json!({"output": [1], "message": "m"}));
}

#[test]
fn a_log_has_a_level() {
    let output = done(enter("log", json!({"message": "hello {{ user.email }}"}))).output;
    assert_eq!(output, json!({"message": "hello user@example.com", "level": "info"}));
}

#[test]
fn whoever_waits_for_nothing_refuses_answers() {
    let error = answered("log", json!({"message": "m"}), &[], Answer::Due).unwrap_err();
    assert_eq!(error.class, ErrorClass::Handler);
}
