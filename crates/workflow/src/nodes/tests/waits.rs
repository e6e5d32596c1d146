//! Nodes that wait for a time, a person or an event.

use serde_json::json;

use super::*;

#[test]
fn a_sleep_lasts_from_now_or_until_a_moment() {
    let until = |config| wait(enter("sleep", config));
    assert_eq!(until(json!({"duration_ms": 5000})), Wait::Until(NOW.plus_millis(5_000)));
    assert_eq!(until(json!({"duration": "30d"})), Wait::Until(NOW.plus_millis(30 * 86_400_000)));
    assert_eq!(until(json!({"duration": "{{ variables.count }}h"})), Wait::Until(NOW.plus_millis(4 * 3_600_000)));
    assert_eq!(until(json!({"until": "2030-01-01T00:00:00Z"})), Wait::Until("2030-01-01T00:00:00Z".parse().unwrap()));
    let over = done(enter("sleep", json!({"until": "2020-01-01T00:00:00Z"})));
    assert_eq!(over.output, json!({"slept_until": NOW}));
    let awake = done(answered("sleep", json!({"duration": "1s"}), &[], Answer::Due));
    assert_eq!(awake.output, json!({"slept_until": "2026-01-03T00:00:00.000000Z"}));
}

#[test]
fn a_sleep_that_cannot_be_is_a_failure() {
    let error = enter("sleep", json!({"duration": "{{ user.email }}"})).unwrap_err();
    assert!(error.message.starts_with("duration: a length of time"), "{}", error.message);
    let error = enter("sleep", json!({"until": "{{ user.email }}"})).unwrap_err();
    assert!(error.message.contains("RFC 3339"), "{}", error.message);
    let error = enter("sleep", json!({"until": "2099-01-01T00:00:00Z"})).unwrap_err();
    assert!(error.message.contains("ten years"), "{}", error.message);
}

#[test]
fn a_task_is_waited_for_as_long_as_it_says() {
    let asked = |config| call(enter("task", config)).deadline_ms;
    assert_eq!(asked(json!({"type": "t"})), None);
    assert_eq!(asked(json!({"type": "t", "deadline_ms": 500})), Some(500));
    assert_eq!(asked(json!({"type": "t", "deadline": "{{ variables.count }}m"})), Some(240_000));
    let error = enter("task", json!({"type": "t", "deadline": "{{ variables.count - 4 }}m"})).unwrap_err();
    assert_eq!(error.message, "deadline: must be at least a millisecond");
}

#[test]
fn an_approval_waits_as_long_as_it_says_or_its_policy() {
    let asked = |config, policy| wait(enter_with("approval", config, &[], &policy));
    let title = json!({"title": "Refund {{ webhook.payload.orders[0].sum }}?"});
    let forever = asked(title.clone(), NodePolicy::default());
    assert_eq!(
        forever,
        Wait::Approval {
            title: "Refund 10?".to_owned(),
            expires_at: None,
            rule: bowline_model::question::AskRule::default()
        }
    );
    let policy = NodePolicy { timeout_ms: Some(1_000), ..NodePolicy::default() };
    let Wait::Approval { expires_at, .. } = asked(title, policy.clone()) else { panic!("not an approval") };
    assert_eq!(expires_at, Some(NOW.plus_millis(1_000)));
    let Wait::Approval { expires_at, .. } = asked(json!({"title": "?", "timeout": "2m"}), policy) else {
        panic!("not an approval")
    };
    assert_eq!(expires_at, Some(NOW.plus_millis(120_000)));
}

#[test]
fn a_question_says_something_and_not_too_much() {
    let asked = |title: &str| enter("approval", json!({"title": title})).map(drop).map_err(|error| error.message);
    assert_eq!(asked("{{ repeat('é', 1000) }}"), Ok(()));
    assert_eq!(asked("{{ repeat('é', 1001) }}"), Err("title: at most 1000 characters, there are 1001".to_owned()));
    assert_eq!(asked("{{ '' }}"), Err("title: say what is asked".to_owned()));
}

#[test]
fn a_no_and_silence_take_their_edges_or_fail() {
    let config = || json!({"title": "?"});
    let decided = |approved| Answer::Decided { approved, by: "ann".to_owned(), reason: Some("too much".to_owned()) };
    let yes = done(answered("approval", config(), &[], decided(true)));
    assert_eq!(yes.output, json!({"approved": true, "by": "ann", "reason": "too much"}));
    assert_eq!(yes.exit, Exit::Success);
    let edges = ["success", "rejected", "expired"];
    assert_eq!(done(answered("approval", config(), &edges, decided(false))).exit, port("rejected"));
    assert_eq!(done(answered("approval", config(), &edges, Answer::Expired)).exit, port("expired"));
    let no = answered("approval", config(), &["success"], decided(false)).unwrap_err();
    assert_eq!(no, RunError::new(ErrorClass::Permanent, "ann said no: too much"));
    let silence = answered("approval", config(), &["success"], Answer::Expired).unwrap_err();
    assert_eq!(silence.class, ErrorClass::Timeout);
    assert!(answered("approval", config(), &[], Answer::Due).is_err());
}

#[test]
fn an_event_is_waited_for_by_name_and_key() {
    let config = json!({"event": "payment.received", "key": "{{ webhook.payload.orders[0].id }}", "timeout": "1h"});
    let expected = Wait::Event {
        name: "payment.received".into(),
        key: Some("7".to_owned()),
        expires_at: Some(NOW.plus_millis(3_600_000)),
    };
    assert_eq!(wait(enter("wait_event", config.clone())), expected);
    let came = done(answered("wait_event", config.clone(), &[], Answer::Event(json!({"sum": 1}))));
    assert_eq!((came.output, came.exit), (json!({"sum": 1}), Exit::Success));
    assert_eq!(done(answered("wait_event", config.clone(), &["expired"], Answer::Expired)).exit, port("expired"));
    assert_eq!(answered("wait_event", config, &[], Answer::Expired).unwrap_err().class, ErrorClass::Timeout);
}
