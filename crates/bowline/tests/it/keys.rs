//! Requests that make no job, under an `Idempotency-Key`: carried out once, answered twice.

use serde_json::{Value, json};

use crate::support::{Answer, TestServer};

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
