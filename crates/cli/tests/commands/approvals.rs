//! `approvals list|show|approve|reject`.

use bowline_cli::Exit;
use serde_json::{Value, json};

use crate::fake::{Asked, Fake, Reply, ok, refused};
use crate::jobs::ID;
use crate::run::{command, hosts};

const HASH: &str = "3f1c";

fn approval() -> Value {
    json!({"state": "required", "hash": HASH, "quorum": 2, "four_eyes": true, "requested_by": "token:ann",
           "expires_at": "2026-01-04T12:00:00Z",
           "votes": [{"by": "token:bob", "approved": true, "reason": "change 4711", "at": "2026-01-03T11:59:30Z"}]})
}

fn server(approval: Value) -> Fake {
    Fake::start(move |asked, _| match asked.path() {
        path if path.ends_with("/hosts") => hosts(asked, |status| if status == "failed" { 0 } else { 37 }),
        path if path.ends_with("/approve") => ok(r#"{"decision":"approved","missing":0,"status":"running"}"#),
        path if path.ends_with("/reject") => ok(r#"{"decision":"rejected","missing":0,"status":"canceled"}"#),
        _ => ok(command("awaiting_approval", &[("new", 37)], approval.clone())),
    })
}

fn decision(fake: &Fake) -> Option<Value> {
    fake.asked().iter().find(|asked| asked.line.starts_with("POST")).map(Asked::json)
}

#[tokio::test]
async fn what_waits_is_listed() {
    let fake = Fake::start(|_, _| {
        let waiting = json!({"job_id": ID, "number": 7, "command": "restart", "hosts": 37,
                             "created_at": "2026-01-03T11:50:00Z", "approval": approval()});
        ok(json!({"approvals": [waiting], "next_cursor": null}).to_string())
    });
    let ran = fake.run(&["approvals", "list"]).await;
    insta::assert_snapshot!(ran.out, @r"
    JOB                                   WHAT     HOSTS  BY         ASKED    YES  EXPIRES
    0198c0de-0000-7000-8000-000000000001  restart     37  token:ann  10m ago  1/2  in 1d
    ");
    let ran =
        Fake::with(&[("GET /approvals", r#"{"approvals":[],"next_cursor":null}"#)]).run(&["approvals", "list"]).await;
    assert_eq!(ran.out, "Nothing waits for approval.\n");
}

#[tokio::test]
async fn it_is_shown_what_would_run_where_and_who_said_what() {
    let ran = server(approval()).run(&["approvals", "show", ID]).await;
    assert_eq!(ran.exit, Exit::Success);
    insta::assert_snapshot!(ran.out, @r#"
    job #7 bowline.command  awaiting_approval
    id          0198c0de-0000-7000-8000-000000000001
    command     restart, version 3
    runs        systemctl restart '{{ params.unit }}'
    params      {"unit": "nginx"}
    timeout     1m 0s on each host
    idempotent  yes: tried again if nobody knows how it ended
    where       inventory main, role=web
    hosts       37 hosts: 37 to come
    rollout     2 hosts first, then 10% at a time, stops when more than 1 host failed
    lock        exclusive
    deadline    10m 0s
    approval    required: 1 of 2 approved, the requester cannot, expires in 1d
    votes       yes by token:bob 30s ago: change 4711
    on          s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, and 27 more
    asked by    token:ann
    asked       1m ago
    hash        3f1c
    "#);
}

#[tokio::test]
async fn a_yes_is_for_exactly_what_was_shown() {
    let fake = server(approval());
    let ran = fake.run_answering(&["approvals", "approve", ID, "--reason", "fine"], Some("y\n")).await;
    assert_eq!(ran.exit, Exit::Success);
    assert!(ran.out.contains("systemctl restart") && ran.out.ends_with("approved; it is running\n"), "{}", ran.out);
    assert_eq!(decision(&fake).unwrap(), json!({"hash": HASH, "reason": "fine"}));

    let fake = server(approval());
    let ran = fake.run_answering(&["approvals", "approve", ID], Some("\n")).await;
    assert_eq!((ran.exit, decision(&fake)), (Exit::Refused, None), "no answer is no yes");

    let fake = server(approval());
    let ran = fake.run(&["approvals", "approve", ID, "--hash", "77"]).await;
    assert_eq!((ran.exit, fake.lines()), (Exit::Success, vec![format!("POST /jobs/{ID}/approve")]));
    assert_eq!(decision(&fake).unwrap()["hash"], "77");
}

#[tokio::test]
async fn a_vote_is_sent_once_and_a_refusal_told() {
    let fake = Fake::start(|asked, _| match asked.path() {
        path if path.ends_with("/approve") => {
            refused(409, "APPROVAL_SUPERSEDED", "what would run is not what was asked for any more")
        }
        path if path.ends_with("/reject") => Reply::Hangup,
        path => panic!("{path}"),
    });
    let ran = fake.run(&["approvals", "approve", ID, "--hash", "77"]).await;
    assert_eq!((ran.exit, ran.err.contains("APPROVAL_SUPERSEDED")), (Exit::Refused, true));
    let ran = fake.run(&["approvals", "reject", ID, "--reason", "no"]).await;
    assert_eq!((ran.exit, fake.lines().len()), (Exit::Unreachable, 2));
}

#[tokio::test]
async fn a_no_carries_its_reason() {
    let fake = server(approval());
    let ran = fake.run(&["approvals", "reject", ID, "--reason", "not today"]).await;
    assert_eq!(ran.out, format!("job {ID}: rejected; it was canceled\n"));
    assert_eq!(decision(&fake).unwrap(), json!({"reason": "not today"}));
}

#[tokio::test]
async fn a_command_that_needs_no_approval_says_so() {
    let ran = server(Value::Null).run(&["approvals", "approve", ID]).await;
    assert_eq!((ran.exit, ran.err.contains("needs no approval")), (Exit::Usage, true));
}
