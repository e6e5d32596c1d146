//! Failing, trying again, giving up.

use serde_json::json;

use crate::support::TestServer;

#[tokio::test]
async fn a_failing_job_is_tried_as_often_as_its_policy_says_and_then_lies_in_the_dead_letters() {
    let server = TestServer::start().await;
    let job = server
        .submit(json!({
            "type": "fail", "payload": {"message": "upstream is down"},
            "policy": {"retry": {"max_attempts": 3, "base_ms": 10, "max_backoff_ms": 50}},
        }))
        .await;
    let shown = server.until_status(&job, "dead").await;
    assert_eq!(shown["job"]["attempts"], 3);
    assert_eq!(shown["runs"].as_array().unwrap().len(), 3);
    assert_eq!(shown["job"]["error"]["message"], "upstream is down");
    let events = server.get(&format!("/jobs/{job}/events")).await.expect(200);
    let kinds: Vec<&str> = events["events"].as_array().unwrap().iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(kinds.first(), Some(&"job_enqueued"));
    assert_eq!(kinds.last(), Some(&"job_deadlettered"));
    assert_eq!(kinds.iter().filter(|k| **k == "run_failed").count(), 2);
}

#[tokio::test]
async fn a_permanent_failure_and_a_panic_are_told_apart() {
    let server = TestServer::start().await;
    let permanent = server.submit(json!({"type": "fail", "payload": {"class": "permanent"}})).await;
    let shown = server.until_status(&permanent, "dead").await;
    assert_eq!(shown["job"]["attempts"], 1);
    let policy = json!({"retry": {"max_attempts": 2, "base_ms": 1}, "dead_letter": false});
    let broken = server.submit(json!({"type": "fail", "payload": {"class": "handler"}, "policy": policy})).await;
    let shown = server.until_status(&broken, "failed").await;
    assert_eq!(shown["job"]["attempts"], 2);
    assert_eq!(shown["job"]["error"]["class"], "handler");
    let healthy = server.submit(json!({"type": "noop"})).await;
    server.until_status(&healthy, "success").await;
}

#[tokio::test]
async fn a_run_that_takes_too_long_is_timed_out() {
    let server = TestServer::start().await;
    let job = server
        .submit(json!({
            "type": "sleep", "payload": {"ms": 60000},
            "policy": {"timeout_ms": 50, "retry": {"max_attempts": 1}},
        }))
        .await;
    let shown = server.until_status(&job, "dead").await;
    assert_eq!(shown["runs"][0]["status"], "timed_out");
    assert_eq!(shown["job"]["error"]["class"], "timeout");
}

#[tokio::test]
async fn a_person_can_have_a_dead_job_tried_again() {
    let server = TestServer::start().await;
    let job = server.submit(json!({"type": "fail", "payload": {"class": "permanent"}})).await;
    server.until_status(&job, "dead").await;
    let answer = server.post(&format!("/jobs/{job}/retry"), json!({"reason": "fixed it"})).await.expect(200);
    assert_eq!(answer["changed"], true);
    let path = format!("/jobs/{job}");
    bowline_testkit::until(std::time::Duration::from_secs(10), "it was tried again", async || {
        let shown = server.get(&path).await.expect(200);
        shown["job"]["status"] == "dead" && shown["runs"].as_array().unwrap().len() == 2
    })
    .await;
    let fine = server.submit(json!({"type": "noop"})).await;
    server.until_status(&fine, "success").await;
    let refused = server.post(&format!("/jobs/{fine}/retry"), json!({})).await;
    assert_eq!((refused.status, refused.code()), (409, "JOB_FINISHED"));
}
