//! Requests that make no job, under an `Idempotency-Key`: carried out once, answered twice.

use std::time::Duration;

use bowline_testkit::until;
use serde_json::{Value, json};

use crate::support::{Answer, Setup, TestServer};

async fn keyed(server: &TestServer, path: &str, key: &str, body: Value) -> Answer {
    let request = server.http().post(server.url(path)).bearer_auth(server.admin()).header("idempotency-key", key);
    Answer::read(request.json(&body).send().await.expect("an answer")).await.expect("a body")
}

/// Without what says that it was answered before.
fn first(mut answer: Value) -> Value {
    assert_eq!(answer.as_object_mut().expect("an object").remove("replayed"), Some(json!(true)));
    answer
}

async fn dead(server: &TestServer) -> String {
    let body = json!({"type": "fail", "policy": {"retry": {"max_attempts": 1}}});
    let job = server.submit(body).await;
    server.until_status(&job, "dead").await;
    job
}

#[tokio::test]
async fn a_retry_is_made_once_for_its_key() {
    let server = TestServer::start().await;
    let job = dead(&server).await;
    let path = format!("/jobs/{job}/retry");
    let answer = keyed(&server, &path, "k", json!({"reason": "fixed"})).await.expect(200);
    assert_eq!((&answer["changed"], answer.get("replayed")), (&json!(true), None));
    server.until_status(&job, "dead").await;
    let again = keyed(&server, &path, "k", json!({"reason": "fixed"})).await.expect(200);
    assert_eq!(first(again), answer);
    let other = keyed(&server, &path, "k", json!({"reason": "fixed now"})).await;
    assert_eq!((other.status, other.code()), (409, "IDEMPOTENCY_CONFLICT"), "{}", other.body);
    let shown = server.get(&format!("/jobs/{job}")).await.expect(200);
    assert_eq!(shown["runs"].as_array().map(Vec::len), Some(2), "{shown}");
    let results: Vec<Value> = server.get("/audit?limit=10").await.expect(200)["records"]
        .as_array()
        .expect("records")
        .iter()
        .filter(|record| record["action"] == "job.retry")
        .map(|record| record["result"].clone())
        .collect();
    assert_eq!(results.len(), 3, "{results:?}");
    for result in ["done", "unchanged", "refused: the key was used before with another body"] {
        assert!(results.contains(&json!(result)), "{results:?}");
    }
}

#[tokio::test]
async fn a_block_is_made_and_lifted_once_for_its_key() {
    let server = TestServer::start().await;
    server.simulated_hosts(1).await;
    let body = json!({"host": "h0000", "reason": "disk"});
    let made = keyed(&server, "/blocks", "k", body.clone()).await.expect(201);
    let again = keyed(&server, "/blocks", "k", body).await.expect(201);
    let listed = server.get("/blocks").await.expect(200)["blocks"][0].clone();
    assert_eq!((first(again), &listed["id"]), (listed.clone(), &made["id"]));
    let other = keyed(&server, "/blocks", "k", json!({"host": "h0000", "reason": "fan"})).await;
    assert_eq!((other.status, other.code()), (409, "IDEMPOTENCY_CONFLICT"), "{}", other.body);
    assert_eq!(server.get("/blocks").await.expect(200)["blocks"].as_array().map(Vec::len), Some(1));
    let path = format!("/blocks/{}/lift", made["id"]);
    let lifted = keyed(&server, &path, "k", json!({})).await.expect(200);
    assert_eq!(first(keyed(&server, &path, "k", json!({})).await.expect(200)), lifted);
    assert_eq!(keyed(&server, &path, "other", json!({})).await.code(), "BLOCK_NOT_FOUND");
}

#[tokio::test]
async fn dead_letters_are_closed_once_for_a_key() {
    let server = TestServer::start().await;
    for _ in 0..4 {
        dead(&server).await;
    }
    let oldest = json!({"all": true, "limit": 1, "reason": "fixed"});
    for verb in ["replay", "purge"] {
        let path = format!("/dlq/default/{verb}");
        let closed = keyed(&server, &path, "k", oldest.clone()).await.expect(200);
        assert_eq!(closed["changed"], 1, "{closed}");
        assert_eq!(first(keyed(&server, &path, "k", oldest.clone()).await.expect(200)), closed);
        let other = keyed(&server, &path, "k", json!({"all": true, "limit": 2, "reason": "fixed"})).await;
        assert_eq!((other.status, other.code()), (409, "IDEMPOTENCY_CONFLICT"), "{}", other.body);
    }
}

/// A signal to one execution, and one to whoever waits: told once, answered as before, and refused with another body.
#[tokio::test]
async fn signals_are_told_once_for_a_key() {
    let server = TestServer::start().await;
    let twice = json!({"spec": {
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "one", "type": "wait_event", "config": {"event": "paid"}},
            {"id": "two", "type": "wait_event", "config": {"event": "paid"}},
        ],
        "edges": [{"source": "start", "target": "one"}, {"source": "one", "target": "two"}],
    }});
    server.send("PUT", "/resources/workflow/twice", &server.admin(), Some(twice)).await.expect(201);
    for all in [false, true] {
        let asked = server.post("/jobs", json!({"workflow": "twice"})).await.expect(202);
        let job = asked["job_id"].as_str().expect("a job").to_owned();
        server.until_status(&job, "paused").await;
        let path = if all { "/signals/paid".to_owned() } else { format!("/jobs/{job}/signal") };
        let body = |sum: u64| match all {
            true => json!({"payload": {"sum": sum}}),
            false => json!({"event": "paid", "payload": {"sum": sum}}),
        };
        let first = keyed(&server, &path, "k", body(1)).await.expect(200);
        assert_eq!(first, json!({"runs": 1, "replayed": false}));
        let again = keyed(&server, &path, "k", body(1)).await.expect(200);
        assert_eq!(again, json!({"runs": 1, "replayed": true}), "answered as before");
        let other = keyed(&server, &path, "k", body(2)).await;
        assert_eq!((other.status, other.code()), (409, "IDEMPOTENCY_CONFLICT"), "{}", other.body);
        let steps = until(Duration::from_secs(10), "the first wait is over", async || {
            let steps = server.get(&format!("/jobs/{job}/steps")).await.expect(200)["steps"].clone();
            let count = steps.as_array().map_or(0, Vec::len);
            if count >= 2 { Ok(steps) } else { Err(steps) }
        })
        .await;
        assert_eq!(steps.as_array().map(Vec::len), Some(2), "the second wait heard nothing: {steps}");
        assert_eq!(keyed(&server, &path, "other", body(2)).await.expect(200)["runs"], 1);
        server.until_status(&job, "success").await;
    }
}

/// A step that is requested again after a lost answer is not taken twice.
#[tokio::test]
async fn an_execution_is_steered_once_for_a_key() {
    let server = TestServer::start().await;
    let node = |id: &str| json!({"id": id, "type": "variable_set", "config": {"name": id, "value": 1}});
    let workflow = json!({
        "nodes": [{"id": "start", "type": "start"}, node("a"), node("b"), node("c")],
        "edges": [
            {"source": "start", "target": "a"}, {"source": "a", "target": "b"}, {"source": "b", "target": "c"},
        ],
    });
    let job = server.submit(json!({"workflow": workflow, "debug": true})).await;
    server.until_status(&job, "paused").await;
    let path = format!("/jobs/{job}/steer");
    let step = || json!({"order": "step"});
    let first = keyed(&server, &path, "k", step()).await.expect(200);
    let mut again = keyed(&server, &path, "k", step()).await.expect(200);
    assert_eq!(again["replayed"].take(), json!(true), "{again}");
    again["replayed"] = first["replayed"].clone();
    assert_eq!(again, first, "it took no other step");
    let other = keyed(&server, &path, "k", json!({"order": "continue"})).await;
    assert_eq!((other.status, other.code()), (409, "IDEMPOTENCY_CONFLICT"), "{}", other.body);
    let second = keyed(&server, &path, "other", step()).await.expect(200);
    assert_eq!(second["steps"].as_u64(), first["steps"].as_u64().map(|steps| steps + 1), "{second}");
    // A signal under the same key is another request.
    keyed(&server, &format!("/jobs/{job}/signal"), "k", json!({"event": "paid"})).await.expect(200);
}

/// What was delivered belongs to its job for ever, also when retention has removed the job.
#[tokio::test]
async fn a_late_redelivery_names_the_job_that_was_removed() {
    let config = "[retention]\nfinished_jobs_days = 0.00001\n".to_owned();
    let server = TestServer::with(Setup { config, ..Setup::default() }).await;
    let body = json!({"type": "noop", "external_id": "order-7"});
    let job = server.post("/jobs", body.clone()).await.expect(202)["job_id"].clone();
    let path = format!("/jobs/{}", job.as_str().expect("a job"));
    until(Duration::from_secs(30), "retention has removed the job", async || server.get(&path).await.status == 404)
        .await;
    let late = server.post("/jobs", body).await.expect(202);
    assert_eq!((&late["job_id"], &late["idempotency"]["pruned"]), (&job, &json!(true)), "{late}");
    assert_eq!(server.get(&path).await.status, 404, "nothing was started");
}

/// What changed since a request was accepted must not make its second delivery an error.
#[tokio::test]
async fn a_second_delivery_is_the_same_job_though_it_could_not_be_accepted_now() {
    let server = TestServer::start().await;
    server.simulated_hosts(1).await;
    let runner = server.token(json!({"kind": "api", "name": "runner", "scopes": ["jobs.write", "jobs.read"]})).await;
    let put = async |path: &str, spec: Value| {
        let answer = server.send("PUT", path, &server.admin(), Some(json!({ "spec": spec }))).await;
        assert!(matches!(answer.status, 200 | 201), "{path}: {answer:?}");
    };
    let workflow = |message: &str| {
        json!({
            "nodes": [{"id": "start", "type": "start"}, {"id": "n", "type": "log", "config": {"message": message}},
                {"id": "end", "type": "end"}],
            "edges": [{"source": "start", "target": "n"}, {"source": "n", "target": "end"}],
        })
    };
    let blueprint =
        |last: &str| json!({"start": "a", "states": {"a": {"transitions": [{"to": last}]}, last: {"final": true}}});
    let secret = |host: &str| json!({"ref": "file://key", "connectors": ["http_request"], "hosts": [host]});
    put("/resources/workflow/pay", workflow("one")).await;
    put("/resources/workflow/gone", workflow("gone")).await;
    put("/resources/blueprint/order", blueprint("b")).await;
    put("/resources/command/restart", json!({"argv": ["true"]})).await;
    put("/resources/secret_ref/key", secret("example.com")).await;
    let call =
        json!({"method": "GET", "url": "https://example.com/", "headers": {"authorization": {"secret_ref": "key"}}});
    let requests = [
        json!({"workflow": {"name": "pay", "version": 1}, "external_id": "a workflow"}),
        json!({"workflow": "gone", "external_id": "a workflow that is deleted"}),
        json!({"blueprint": {"name": "order", "version": 1}, "external_id": "a blueprint"}),
        json!({"command": {"name": "restart", "version": 1}, "hosts": ["h0000"], "external_id": "a command"}),
        json!({"type": "http_request", "payload": call, "run_at": "2035-01-01T00:00:00Z", "external_id": "a task"}),
    ];
    let send = async |body: &Value| server.send("POST", "/jobs", &runner, Some(body.clone())).await;
    let mut jobs = Vec::new();
    for body in &requests {
        jobs.push(send(body).await.expect(202)["job_id"].clone());
    }
    put("/resources/workflow/pay", workflow("two")).await;
    put("/resources/blueprint/order", blueprint("c")).await;
    put("/resources/command/restart", json!({"argv": ["false"]})).await;
    put("/resources/secret_ref/key", secret("example.org")).await;
    server.send("DELETE", "/resources/workflow/gone?reason=tidying+up", &server.admin(), None).await.expect(200);
    for (body, job) in requests.iter().zip(&jobs) {
        let again = send(body).await.expect(202);
        assert_eq!((&again["job_id"], &again["idempotency"]["replayed"]), (job, &json!(true)), "{body}: {again}");
        let mut other = body.clone();
        other["priority"] = json!(7);
        assert_eq!(send(&other).await.code(), "IDEMPOTENCY_CONFLICT", "{other}");
        other["external_id"] = json!("never sent before");
        assert!(matches!(send(&other).await.status, 403 | 422), "{other} could not be accepted now");
    }
    let batch: Vec<&Value> = requests.iter().filter(|body| body.get("command").is_none()).collect();
    let answer = server.send("POST", "/jobs/batch", &runner, Some(json!({ "jobs": batch }))).await.expect(202);
    assert_eq!((&answer["replayed"], &answer["refused"]), (&json!(4), &json!(0)), "{answer}");
}
