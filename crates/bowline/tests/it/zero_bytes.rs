//! Zero bytes: nobody can send one through the door, but a workflow can come by one, and both ledgers keep it as it is.

use bowline_testkit::fresh_database;
use serde_json::{Value, json};

use crate::support::{Setup, TestServer};

/// An expression that has a zero byte in it, though nobody wrote one.
const ODD: &str = r#"{{ from_json(webhook.payload.said) }}"#;

/// One node between a beginning and an end.
fn with_node(node: &Value) -> Value {
    json!({
        "nodes": [{"id": "start", "type": "start"}, node, {"id": "end", "type": "end", "config": {"output": ODD}}],
        "edges": [{"source": "start", "target": node["id"]}, {"source": node["id"], "target": "end"}],
    })
}

async fn begun(server: &TestServer, workflow: &Value) -> Value {
    let body = json!({"workflow": workflow, "input": {"said": r#""a\u0000b""#}});
    server.post("/jobs", body).await.expect(202)
}

async fn zero_bytes_are_kept(setup: Setup) {
    let server = TestServer::with(setup).await;
    // At the door they are refused, with their place.
    for body in [
        r#"{"workflow": "x", "input": {"said": "\u0000"}}"#,
        r#"{"type": "noop", "payload": {"deep": ["\u0000"]}}"#,
        r#"{"workflow": {"nodes": [{"id": "start", "type": "log", "config": {"message": "\u0000"}}], "edges": []}}"#,
    ] {
        let request = server.http().post(server.url("/jobs")).bearer_auth(server.admin());
        let answer = request.header("content-type", "application/json").body(body).send().await.expect("an answer");
        let answer = crate::support::Answer::read(answer).await.expect("a body");
        assert_eq!((answer.status, &answer.body["error"]["details"]["kind"]), (400, &json!("NUL")), "{answer:?}");
    }
    // The title of an approval.
    let asked = begun(
        &server,
        &with_node(&json!({"id": "ask", "type": "approval", "config": {"title": ODD, "four_eyes": false}})),
    )
    .await;
    let id = asked["job_id"].as_str().expect("an id");
    assert_eq!(server.get("/approvals").await.expect(200)["approvals"][0]["title"], "a\0b");
    assert_eq!(server.get(&format!("/jobs/{id}")).await.expect(200)["workflow"]["waits"][0]["name"], "a\0b");
    let decided = server.post(&format!("/jobs/{id}/approve"), json!({})).await.expect(200);
    assert_eq!(decided["status"], "success");
    assert_eq!(server.get(&format!("/jobs/{id}")).await.expect(200)["job"]["result"], "a\0b");
    // What a node logs, and what it remembers.
    for node in [
        json!({"id": "say", "type": "log", "config": {"message": ODD}}),
        json!({"id": "say", "type": "variable_set", "config": {"name": "said", "value": ODD}}),
    ] {
        let done = begun(&server, &with_node(&node)).await;
        assert_eq!((&done["status"], &done["result"]), (&json!("success"), &json!("a\0b")), "{done}");
    }
    // The key of an event that is waited for.
    let node = json!({"id": "wait", "type": "wait_event", "config": {"event": "paid", "key": ODD}});
    let waiting = begun(&server, &with_node(&node)).await;
    assert_eq!(waiting["status"], "paused", "{waiting}");
    let id = waiting["job_id"].as_str().expect("an id");
    assert_eq!(server.get(&format!("/jobs/{id}")).await.expect(200)["workflow"]["waits"][0]["key"], "a\0b");
    // What a job is given that a later turn begins, and what comes back from it.
    let node = json!({"id": "work", "type": "task", "config": {"type": "echo", "payload": {"said": ODD}}});
    let mut later = with_node(&json!({"id": "nap", "type": "sleep", "config": {"duration_ms": 1}}));
    later["nodes"].as_array_mut().expect("nodes").push(node);
    later["edges"] = json!([{"source": "start", "target": "nap"}, {"source": "nap", "target": "work"},
        {"source": "work", "target": "end"}]);
    let id = begun(&server, &later).await["job_id"].as_str().expect("an id").to_owned();
    assert_eq!(server.until_status(&id, "success").await["job"]["result"], "a\0b");
    // A failure whose message has one.
    let number = json!({"expression": "int(from_json(webhook.payload.said))", "store_as": "n"});
    let failing = with_node(&json!({"id": "sum", "type": "math", "config": number}));
    let failed = begun(&server, &failing).await;
    assert_eq!(failed["status"], "failed", "{failed}");
    assert!(!failed["error"]["message"].as_str().expect("a message").is_empty());
    // Nothing of all this keeps anybody from reading.
    for path in ["/jobs?limit=50", "/events?limit=200", "/audit?limit=50"] {
        server.get(path).await.expect(200);
    }
}

#[tokio::test]
async fn a_zero_byte_is_refused_at_the_door_and_kept_inside() {
    zero_bytes_are_kept(Setup::default()).await;
}

#[tokio::test]
async fn a_zero_byte_is_refused_at_the_door_and_kept_inside_on_postgresql() {
    let database = fresh_database();
    zero_bytes_are_kept(Setup { database_url: Some(database.url().to_owned()), ..Setup::default() }).await;
}
