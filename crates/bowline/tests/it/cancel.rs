//! Stopping jobs.

use serde_json::json;

use crate::support::{SHORT_LEASES, Setup, TestServer};

#[tokio::test]
async fn a_waiting_job_ends_at_once_and_asking_again_is_harmless() {
    let server = TestServer::start().await;
    let job = server.submit(json!({"type": "nobody.takes.this"})).await;
    let path = format!("/jobs/{job}/cancel");
    assert_eq!(server.post(&path, json!({"reason": "not needed"})).await.expect(200)["status"], "canceled");
    let again = server.post(&path, json!({})).await.expect(200);
    assert_eq!((again["status"].as_str(), again["changed"].as_bool()), (Some("canceled"), Some(false)));
}

#[tokio::test]
async fn a_running_handler_is_told_and_confirms() {
    let server = TestServer::start().await;
    let job = server.submit(json!({"type": "sleep", "payload": {"ms": 600000}})).await;
    server.until_status(&job, "running").await;
    let answer = server.post(&format!("/jobs/{job}/cancel"), json!({})).await.expect(200);
    assert_eq!(answer["status"], "canceling");
    let shown = server.until_status(&job, "canceled").await;
    assert_eq!(shown["runs"][0]["status"], "canceled");
}

#[tokio::test]
async fn a_remote_worker_hears_of_a_cancel_with_its_heartbeat() {
    let server = TestServer::with(Setup { config: SHORT_LEASES.to_owned(), ..Setup::default() }).await;
    let token = server.worker("w1", &["slow"]).await;
    let job = server.submit(json!({"type": "slow"})).await;
    let tasks = server.send("GET", "/workers/w1/tasks?max=1&wait=5000", &token, None).await.expect(200);
    let run = tasks[0]["task_id"].clone();
    let beat =
        |runs: serde_json::Value| server.send("POST", "/workers/w1/heartbeat", &token, Some(json!({"runs": runs})));
    assert_eq!(beat(json!([run])).await.expect(200)["renewed"], json!([run]));
    server.post(&format!("/jobs/{job}/cancel"), json!({})).await.expect(200);
    assert_eq!(beat(json!([run])).await.expect(200)["cancel"], json!([run]));
    let done = json!({"task_id": run, "status": "canceled"});
    server.send("POST", "/tasks/result", &token, Some(done)).await.expect(200);
    server.until_status(&job, "canceled").await;
}
