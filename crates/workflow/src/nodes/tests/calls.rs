//! Nodes whose work is a job, and the loop over them.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::node::CallWhat;

fn payload(next: Result<Next, RunError>) -> (String, Value) {
    match call(next).what {
        CallWhat::Task { task_type, payload, .. } => (task_type.to_string(), payload),
        other => panic!("not a task: {other:?}"),
    }
}

#[test]
fn a_request_has_its_values_encoded_by_where_they_stand() {
    let config = json!({
        "method": "POST",
        "url": "https://api.example.com/orders/{{ webhook.payload.evil }}?n={{ variables.count }}",
        "headers": {"X-User": "{{ user.email }}", "Authorization": {"secret_ref": "stripe-key", "prefix": "Bearer "}},
        "query": {"page": "{{ variables.count }}", "tag": ["a", "b"]},
        "body": {"order": "{{ webhook.payload.orders[0] }}"},
        "accept": [200, "4xx"],
    });
    let (task_type, payload) = payload(enter("http_request", config));
    assert_eq!(task_type, "http_request");
    assert_eq!(
        payload,
        json!({
            "method": "POST",
            "url": "https://api.example.com/orders/a%2Fb%3Fc%3Dd%26e%0D%0AX%3A%20y?n=4",
            "headers": {"X-User": "user@example.com", "Authorization": {"secret_ref": "stripe-key", "prefix": "Bearer "}},
            "query": {"page": 4, "tag": ["a", "b"]},
            "body": {"order": {"id": 7, "sum": 10}},
            "timeout_ms": 30_000,
            "follow_redirects": true,
            "accept": ["200", "4xx"],
        })
    );
}

#[test]
fn a_value_cannot_break_out_of_a_header() {
    let config = json!({"url": "https://example.com", "headers": {"X-A": "{{ webhook.payload.evil }}"}});
    let error = enter("http_request", config).unwrap_err();
    assert!(error.message.contains("headers.X-A: line 1, column 4: a header has no line breaks"), "{}", error.message);
}

#[test]
fn a_request_is_as_patient_as_its_policy() {
    let policy = NodePolicy { timeout_ms: Some(1_000), ..NodePolicy::default() };
    let config = json!({"url": "https://example.com", "timeout_ms": 2_000});
    let hasty = call(enter_with("http_request", config.clone(), &[], &policy));
    assert_eq!((hasty.timeout_ms, hasty.policy), (6_000, policy));
    assert_eq!(call(enter("http_request", config)).timeout_ms, 7_000);
}

#[test]
fn a_message_for_a_broker() {
    let config = json!({
        "broker": "main", "exchange": "orders", "routing_key": "order.{{ webhook.payload.orders[0].id }}",
        "body": {"id": "{{ webhook.payload.orders[0].id }}"}, "properties": {"content_type": "application/json"},
        "mandatory": true,
    });
    let (task_type, payload) = payload(enter("rabbitmq_publish", config));
    assert_eq!(task_type, "rabbitmq_publish");
    let expected = json!({
        "broker": "main", "exchange": "orders", "routing_key": "order.7", "body": {"id": 7}, "headers": {},
        "properties": {"content_type": "application/json"}, "mandatory": true,
    });
    assert_eq!(payload, expected);
}

#[test]
fn a_task_a_command_and_a_workflow() {
    let task = json!({"type": "mail.send", "payload": {"to": "{{ user.email }}"}, "lane": "low", "priority": 5});
    match call(enter("task", task)).what {
        CallWhat::Task { task_type, payload, lane, priority, .. } => {
            assert_eq!((task_type.as_str(), payload), ("mail.send", json!({"to": "user@example.com"})));
            assert_eq!((lane, priority), (Some(bowline_model::Lane::Low), Some(5)));
        }
        other => panic!("not a task: {other:?}"),
    }
    let command =
        json!({"command": "restart", "params": {"n": "{{ variables.count }}"}, "hosts": ["web{{ variables.count }}"]});
    let expected = json!({"command": "restart", "params": {"n": 4}, "hosts": ["web4"]});
    assert_eq!(call(enter("command", command)).what, CallWhat::Command(expected));
    let injected = json!({"command": "restart", "hosts": ["{{ webhook.payload.evil }}"]});
    assert!(enter("command", injected).unwrap_err().message.starts_with("hosts: a host name"));
    let workflow = call(enter("workflow", json!({"name": "refund", "input": {"sum": "{{ variables.price }}"}})));
    let expected = CallWhat::Workflow { name: "refund".to_owned(), version: None, input: json!({"sum": 99.5}) };
    assert_eq!(workflow.what, expected);
}

#[test]
fn the_output_of_a_call_is_its_result() {
    let config = || json!({"type": "t"});
    let well = answered("task", config(), &[], Answer::Ended(ended(json!({"a": 1}))));
    assert_eq!(done(well).output, json!({"a": 1}));
    let (badly, output) = failed(answered("task", config(), &[], Answer::Ended(broken("no route"))));
    assert_eq!(badly, RunError::new(ErrorClass::Transient, "no route"));
    assert_eq!(output, json!({"error": {"class": "transient", "message": "no route"}}));
    // Whoever takes over knows which job it was, and what it left behind.
    let job = bowline_model::JobId::mint(NOW, [7; 10]);
    let left = Ended { job: Some(job), result: json!({"hosts": 2}), ..broken("1 of 2 hosts failed") };
    let (_, output) = failed(answered("task", config(), &[], Answer::Ended(left)));
    let error = json!({"class": "transient", "message": "1 of 2 hosts failed"});
    assert_eq!(output, json!({"error": error, "job_id": job, "result": {"hosts": 2}}));
    assert!(answered("task", config(), &[], Answer::Expired).is_err());
}

fn each(items: &str, extra: Value) -> Value {
    let mut config = json!({
        "items": items,
        "node": {"type": "task", "config": {"type": "ship", "payload": {"id": "{{ item.id }}", "at": "{{ index }}"}}},
    });
    config.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    config
}

#[test]
fn a_loop_calls_for_each_item() {
    let config = each("{{ webhook.payload.orders }}", json!({"concurrency": 3, "stop_on_failure": true}));
    match wait(enter("foreach", config)) {
        Wait::Each { calls, concurrency: 3, stop_on_failure: true } => {
            let payloads: Vec<_> = calls
                .into_iter()
                .map(|call| match call.what {
                    CallWhat::Task { payload, .. } => payload,
                    other => panic!("not a task: {other:?}"),
                })
                .collect();
            assert_eq!(payloads, [json!({"id": 7, "at": 0}), json!({"id": 8, "at": 1})]);
        }
        other => panic!("not a loop: {other:?}"),
    }
}

#[test]
fn a_loop_over_nothing_is_done_at_once() {
    let output = done(enter("foreach", each("{{ [] }}", json!({})))).output;
    assert_eq!(output, json!({"items": [], "succeeded": 0, "failed": 0, "skipped": 0}));
}

#[test]
fn a_loop_over_no_list_or_with_a_bad_item_fails() {
    let error = enter("foreach", each("{{ user.email }}", json!({}))).unwrap_err();
    assert_eq!(error.message, "items: must be a list");
    let error = enter("foreach", each("{{ [1] }}", json!({}))).unwrap_err();
    assert!(error.message.starts_with("item 0: payload.id: line 1, column 4:"), "{}", error.message);
}

#[test]
fn a_loop_gathers_what_became_of_each() {
    let answers = || Answer::Each(vec![Some(ended(json!(1))), Some(broken("lost")), None]);
    let strict = each("{{ webhook.payload.orders }}", json!({}));
    let (error, mut told) = failed(answered("foreach", strict, &[], answers()));
    assert_eq!(error, RunError::new(ErrorClass::Transient, "1 of 3 items have failed; item 1: lost"));
    let lenient = each("{{ webhook.payload.orders }}", json!({"fail_if_any": false}));
    let output = done(answered("foreach", lenient, &[], answers())).output;
    let expected = json!({
        "items": [
            {"status": "succeeded", "output": 1},
            {"status": "failed", "error": {"class": "transient", "message": "lost"}},
            {"status": "skipped"},
        ],
        "succeeded": 1, "failed": 1, "skipped": 1,
    });
    assert_eq!(output, expected);
    // After a failure it says the same, and why.
    let why = told.as_object_mut().and_then(|told| told.remove("error"));
    assert_eq!(why, Some(json!({"class": "transient", "message": "1 of 3 items have failed; item 1: lost"})));
    assert_eq!(told, expected);
}

#[test]
fn the_calls_of_a_loop_are_bounded_together() {
    // 200 items of a hundred kilobytes each are more than a run should have to keep.
    let items: Vec<u32> = (0..200).collect();
    let config = json!({
        "items": items,
        "node": {"type": "task", "config": {"type": "t", "payload": "{{ repeat('aaaaaaaaaa', 10000) }}"}},
    });
    let error = enter("foreach", config).unwrap_err();
    assert!(error.message.starts_with("all calls together have more than"), "{}", error.message);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 0, ..ProptestConfig::default() })]

    /// However many items there are and however large each becomes, a loop that begins is within both bounds.
    #[test]
    fn no_loop_begins_beyond_its_bounds(
        (items, bytes) in prop_oneof![
            (1..300_usize, 0..200_000_usize),
            (9_990..10_010_usize, 0..20_usize),
            (160..180_usize, 95_000..105_000_usize),
        ],
    ) {
        let payload = format!("{{{{ repeat('a', {bytes}) }}}}");
        // A list that is written down is counted when it is compiled; this one when the loop begins.
        let list = match items {
            ..=10_000 => json!(vec![1; items]),
            _ => json!(format!("{{{{ split(repeat(',', {}), ',') }}}}", items - 1)),
        };
        let config = json!({"items": list, "node": {"type": "task", "config": {"type": "t", "payload": payload}}});
        match enter("foreach", config) {
            Ok(Next::Wait(Wait::Each { calls, .. })) => {
                prop_assert_eq!(calls.len(), items);
                prop_assert!(calls.len() <= 10_000 && items * bytes <= 16 << 20, "{items} items of {bytes} bytes");
            }
            Ok(other) => prop_assert!(false, "not a loop: {other:?}"),
            Err(error) => {
                let beyond = items > 10_000 || items * (bytes + 1_000) > 16 << 20;
                prop_assert!(beyond, "{items} items of {bytes} bytes: {}", error.message);
            }
        }
    }
}
