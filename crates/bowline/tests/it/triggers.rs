//! Triggers through the door and a real broker: a message becomes a job, once, or a dead letter with a reason.

use std::time::Duration;

use bowline_testkit::{shared_rabbitmq, until};
use serde_json::{Value, json};

use crate::support::queue::{TestQueue, broker_documents, server_with_broker};
use crate::support::{Setup, TestServer};

const PATIENCE: Duration = Duration::from_secs(60);

async fn put(server: &TestServer, path: &str, spec: Value) -> u16 {
    server.send("PUT", &format!("/resources/{path}"), &server.admin(), Some(json!({"spec": spec}))).await.status
}

/// Waits until this is true of the trigger as `GET /triggers/{name}` shows it.
async fn until_here(server: &TestServer, what: &str, good: impl Fn(&Value) -> bool) -> Value {
    until(PATIENCE, what, async || {
        let shown = server.get("/triggers/orders").await.expect(200);
        if good(&shown["here"]) { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await
}

async fn messages(server: &TestServer) -> Vec<Value> {
    let mut all = Vec::new();
    for job in server.jobs().await {
        let shown = server.get(&format!("/jobs/{}", job["id"].as_str().expect("an id"))).await.expect(200);
        let given = &shown["job"]["payload"];
        all.push(if given["input"].is_null() { given["message"].clone() } else { given["input"]["message"].clone() });
    }
    all
}

fn bowline(server: &TestServer, args: &[&str]) -> (i32, String) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bowline"));
    let command = command.args(["--server", &server.url("")]).args(args).env("BOWLINE_TOKEN", server.admin());
    let output = command.output().expect("the program starts");
    (output.status.code().expect("a code"), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn workflow() -> Value {
    json!({
        "nodes": [
            {"id": "start", "type": "start", "config": {}},
            {"id": "out", "type": "end", "config": {"output": "{{webhook.payload.message.body.order}}"}},
        ],
        "edges": [{"source": "start", "target": "out"}],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_starts_a_workflow_once_with_itself_as_the_input() {
    let address = shared_rabbitmq();
    let (queue, server) = (TestQueue::on(&address).await, server_with_broker().await);
    // All at once, and the trigger first: what it names comes with it.
    let trigger = queue.trigger(json!({"workflow": "ship", "input": {"from": "queue"}}));
    let mut documents = vec![json!({"kind": "trigger", "name": "orders", "spec": trigger})];
    documents.extend(broker_documents(&server, &address));
    documents.push(json!({"kind": "workflow", "name": "ship", "spec": workflow()}));
    server.post("/apply", json!({"documents": documents})).await.expect(200);
    until_here(&server, "the queue is read", |here| here["reading_since"].is_string()).await;

    queue.publish(Some("m1"), Some("application/json"), br#"{"order": 7}"#).await;
    let shown = until_here(&server, "a workflow is started", |here| here["started"] == 1).await;
    let job = shown["here"]["last_job_id"].as_str().expect("a job").to_owned();
    let done = server.until_status(&job, "success").await;
    assert_eq!(done["job"]["result"], json!(7), "{done}");
    let input = &done["job"]["payload"]["input"];
    let message = json!({
        "body": {"order": 7}, "headers": {}, "message_id": "m1", "correlation_id": null, "exchange": "",
        "routing_key": queue.name, "redelivered": false, "content_type": "application/json",
    });
    assert_eq!(*input, json!({"from": "queue", "message": message}), "{done}");

    // The same message again is the same job. One without an id, and with it something that is no text, is another one.
    queue.publish(Some("m1"), None, br#"{"order": 7}"#).await;
    queue.publish(None, None, b"\xff").await;
    let shown = until_here(&server, "three came", |here| here["started"] == 2 && here["replayed"] == 1).await;
    assert_eq!((&shown["here"]["delivered"], &shown["here"]["refused"]), (&json!(3), &json!(0)), "{shown}");
    let bodies: Vec<Value> = messages(&server).await.into_iter().map(|message| message["body"].clone()).collect();
    assert!(bodies.len() == 2 && bodies.contains(&json!({"base64": "/w=="})), "{bodies:?}");
    assert_eq!(queue.waiting().await, 0);

    let (code, listed) = bowline(&server, &["trigger", "list"]);
    assert!(code == 0 && listed.contains("orders") && listed.contains(&queue.name), "{listed}");
    let (code, one) = bowline(&server, &["trigger", "show", "orders"]);
    assert!(code == 0 && one.contains(&queue.name) && one.contains(&job[..8]), "{one}");
    let list = server.get("/triggers").await.expect(200);
    assert_eq!(list["triggers"][0]["here"]["started"], 2, "{list}");
    assert_eq!(server.get("/triggers/nothing").await.code(), "TRIGGER_NOT_FOUND");
    let used = server.send("DELETE", "/resources/rabbitmq/mq?reason=tidying+up", &server.admin(), None).await;
    assert!(used.status == 409 && used.body.to_string().contains("the trigger orders"), "{}", used.body);
    assert!(!server.child().log().contains(&address.password), "the password is in the log");
}

/// A trigger never has rights that its owner lacks or has lost. Messages wait in the queue meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_is_not_read_once_the_token_that_applied_it_is_revoked() {
    let address = shared_rabbitmq();
    let (queue, server) = (TestQueue::on(&address).await, server_with_broker().await);
    server.post("/apply", json!({"documents": broker_documents(&server, &address)})).await.expect(200);
    let made = json!({"kind": "api", "name": "ann", "scopes": ["resources.write", "jobs.write"]});
    let made = server.post("/tokens", made).await.expect(201);
    let (id, ann) = (made["id"].as_str().expect("an id"), made["token"].as_str().expect("a token"));
    let body = json!({"spec": queue.trigger(json!({"type": "echo"}))});
    server.send("PUT", "/resources/trigger/orders", ann, Some(body.clone())).await.expect(201);
    queue.publish(Some("m1"), None, b"1").await;
    until_here(&server, "the first is started", |here| here["started"] == 1).await;

    let revoked = server.post(&format!("/tokens/{id}/revoke"), json!({})).await.expect(200);
    assert_eq!(revoked["stopped"], json!([{"kind": "trigger", "name": "orders"}]), "{revoked}");
    let shown = until_here(&server, "the queue is not read", |here| here["reading_since"].is_null()).await;
    assert!(shown["stopped"].as_str().is_some_and(|why| why.contains("was revoked")), "{shown}");
    until(PATIENCE, "an event reports it", async || {
        let told = server.get("/events?type=trigger_refused").await.expect(200).to_string();
        if told.contains("trigger orders is not read") { Ok(()) } else { Err(told) }
    })
    .await;
    queue.publish(Some("m2"), None, b"2").await;
    let (code, listed) = bowline(&server, &["trigger", "list"]);
    assert!(code == 0 && listed.contains("stopped") && listed.contains("was revoked"), "{listed}");
    until(PATIENCE, "the message waits", async || if queue.waiting().await == 1 { Ok(()) } else { Err("none") }).await;
    assert_eq!(server.jobs().await.len(), 1);

    // Another token takes it over by applying it again.
    server.send("PUT", "/resources/trigger/orders", &server.admin(), Some(body)).await.expect(200);
    until_here(&server, "the second is started", |here| here["started"] == 2).await;
    assert_eq!(server.get("/triggers/orders").await.expect(200)["stopped"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_can_start_nothing_is_a_dead_letter_with_a_reason() {
    let address = shared_rabbitmq();
    let (queue, server) = (TestQueue::on(&address).await, server_with_broker().await);
    let trigger = queue.trigger(json!({"workflow": "ship"}));
    let mut documents = broker_documents(&server, &address);
    documents.push(json!({"kind": "workflow", "name": "ship", "spec": workflow()}));
    documents.push(json!({"kind": "trigger", "name": "orders", "spec": trigger}));
    server.post("/apply", json!({"documents": documents})).await.expect(200);
    queue.publish(Some("good"), None, b"1").await;
    until_here(&server, "the first is started", |here| here["started"] == 1).await;

    let large = vec![b'x'; (1 << 20) + 1];
    for (nth, (id, sort, body, words)) in [
        ("broken", Some("application/json"), &b"{"[..], "not JSON"),
        ("good", None, b"2", "used before with another body"),
        ("large", None, &large, "1048577 bytes"),
    ]
    .into_iter()
    .enumerate()
    {
        queue.publish(Some(id), sort, body).await;
        let refused = nth as u64 + 1;
        let shown = until_here(&server, "it is refused", |here| here["refused"] == refused).await;
        let error = shown["here"]["last_error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(error.contains(id) && error.contains(words), "{shown}");
        let dead = until(PATIENCE, "it is a dead letter", async || queue.take_dead().await).await;
        assert_eq!(dead, (id.to_owned(), body.to_vec()));
        let told = server.get("/events?type=trigger_refused").await.expect(200);
        assert!(told.to_string().contains(words), "{told}");
    }
    // Nobody can start what is not there any more; a message whose job is there is not lost by that.
    server.send("DELETE", "/resources/workflow/ship?reason=gone", &server.admin(), None).await.expect(200);
    queue.publish(Some("late"), None, b"3").await;
    let dead = until(PATIENCE, "it is a dead letter", async || queue.take_dead().await).await;
    assert_eq!(dead.0, "late");
    queue.publish(Some("good"), None, b"1").await;
    until_here(&server, "it is known", |here| here["replayed"] == 1).await;
    assert_eq!(server.jobs().await.len(), 1);
    assert_eq!((queue.take_dead().await, queue.waiting().await), (None, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_reads_while_it_is_enabled_and_follows_what_it_says() {
    let address = shared_rabbitmq();
    let (queue, other, server) =
        (TestQueue::on(&address).await, TestQueue::on(&address).await, server_with_broker().await);
    server.post("/apply", json!({"documents": broker_documents(&server, &address)})).await.expect(200);
    let mut spec = queue.trigger(json!({"type": "echo", "payload": {"from": "queue"}}));
    spec["enabled"] = json!(false);
    assert_eq!(put(&server, "trigger/orders", spec.clone()).await, 201);
    queue.publish(Some("m1"), Some("text/plain"), b"1").await;
    // A second trigger that is enabled shows that there was time enough to read.
    assert_eq!(put(&server, "trigger/other", other.trigger(json!({"type": "echo"}))).await, 201);
    other.publish(Some("o1"), None, b"0").await;
    until(PATIENCE, "the other trigger reads", async || server.jobs().await.len() == 1).await;
    let shown = server.get("/triggers/orders").await.expect(200);
    assert_eq!((&shown["enabled"], &shown["here"]["delivered"]), (&json!(false), &json!(0)), "{shown}");
    assert_eq!(queue.waiting().await, 1);

    spec["enabled"] = json!(true);
    assert_eq!(put(&server, "trigger/orders", spec.clone()).await, 200);
    until_here(&server, "it is started", |here| here["started"] == 1).await;
    let bodies: Vec<Value> = messages(&server).await.into_iter().map(|message| message["body"].clone()).collect();
    assert!(bodies.contains(&json!("1")) && bodies.contains(&json!(0)), "{bodies:?}");

    // The broker is somewhere else: nothing is read, and it says why. Then it is back.
    let away = json!({"url": format!("amqp://127.0.0.1:{}", bowline_testkit::free_port()), "username": address.user,
        "password": {"secret_ref": "mq"}});
    assert_eq!(put(&server, "rabbitmq/mq", away).await, 200);
    until_here(&server, "it is not read", |here| {
        here["reading_since"].is_null()
            && here["last_error"]["message"].as_str().is_some_and(|text| text.contains("cannot be reached"))
    })
    .await;
    queue.publish(Some("m2"), None, b"2").await;
    assert_eq!(queue.waiting().await, 1);
    let back = json!({"url": address.url(), "username": address.user, "password": {"secret_ref": "mq"}});
    assert_eq!(put(&server, "rabbitmq/mq", back).await, 200);
    until_here(&server, "it is started", |here| here["started"] == 2).await;

    server.send("DELETE", "/resources/trigger/orders?reason=enough", &server.admin(), None).await.expect(200);
    assert_eq!(server.get("/triggers/orders").await.status, 404);
    // Gone for good once its reader has left: a message that is put there then stays.
    until(PATIENCE, "nobody reads", async || {
        queue.publish(None, None, b"3").await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        queue.waiting().await > 0
    })
    .await;
}

/// The rules of another tenant are not ours.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_not_read_where_the_tenant_may_not_go() {
    let address = shared_rabbitmq();
    let config = "[egress.tenants.others]\nallow_networks = [\"127.0.0.1/32\"]\n".to_owned();
    let (queue, server) = (TestQueue::on(&address).await, TestServer::with(Setup { config, ..Setup::default() }).await);
    let mut documents = broker_documents(&server, &address);
    documents.push(json!({"kind": "trigger", "name": "orders", "spec": queue.trigger(json!({"type": "echo"}))}));
    server.post("/apply", json!({"documents": documents})).await.expect(200);
    queue.publish(Some("m1"), None, b"1").await;
    let shown = until_here(&server, "it says why", |here| here["last_error"]["message"].is_string()).await;
    let error = shown["here"]["last_error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(error.starts_with("EGRESS_DENIED: ") && error.contains(&address.url()), "{shown}");
    assert!(shown["here"]["reading_since"].is_null(), "{shown}");
    assert_eq!((queue.waiting().await, server.jobs().await.len()), (1, 0));
}

#[tokio::test]
async fn a_trigger_that_cannot_be_is_refused_with_its_place() {
    let server = TestServer::start().await;
    let broker = json!({"url": "amqp://mq", "username": "ann", "password": {"secret_ref": "mq"}});
    assert_eq!(put(&server, "rabbitmq/mq", broker).await, 201);
    let source = json!({"broker": "mq", "queue": "q"});
    let echo = json!({"type": "echo"});
    for (spec, path) in [
        (json!({"rabbitmq": {"broker": "nobody", "queue": "q"}, "start": echo}), "spec.rabbitmq.broker"),
        (json!({"rabbitmq": {"broker": "mq", "queue": "q", "prefetch": 0}, "start": echo}), "spec.rabbitmq.prefetch"),
        (json!({"rabbitmq": source, "start": {"workflow": "nothing"}}), "spec.start.workflow"),
        (json!({"rabbitmq": source, "start": {"command": "nothing", "selector": "all"}}), "spec.start.command"),
        (
            json!({"rabbitmq": source, "start": {"type": "echo", "payload": {"message": 1}}}),
            "spec.start.payload.message",
        ),
        (json!({"rabbitmq": source, "start": echo, "on_refused": "drop"}), "spec.on_refused"),
    ] {
        let answer = server.send("PUT", "/resources/trigger/bad", &server.admin(), Some(json!({"spec": spec}))).await;
        let said = (answer.status, answer.body["error"]["details"]["path"].as_str());
        assert_eq!(said, (422, Some(path)), "{spec}: {answer:?}");
    }
    // Whoever may not start jobs may not have messages do it.
    let scopes = json!(["resources.write", "resources.read"]);
    let lesser = server.token(json!({"kind": "api", "name": "lesser", "scopes": scopes})).await;
    let good = json!({"spec": {"rabbitmq": source, "start": echo}});
    let refused = server.send("PUT", "/resources/trigger/orders", &lesser, Some(good.clone())).await;
    assert_eq!(refused.status, 403, "{}", refused.body);
    server.send("PUT", "/resources/trigger/orders", &server.admin(), Some(good)).await.expect(201);
}
