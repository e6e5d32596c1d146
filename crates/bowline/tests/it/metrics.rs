//! Figures for those who watch.

use serde_json::json;

use crate::support::TestServer;

/// The same figures whoever does the work: the worker inside the server, or one outside.
#[tokio::test]
async fn successes_and_retries_are_counted_by_type() {
    let server = TestServer::start().await;
    let quick = server.submit(json!({"type": "noop"})).await;
    server.until_status(&quick, "success").await;
    let policy = json!({"retry": {"max_attempts": 2, "base_ms": 1, "max_backoff_ms": 1}});
    let body = json!({"type": "fail", "payload": {"class": "transient"}, "policy": policy});
    let failing = server.submit(body).await;
    server.until_status(&failing, "dead").await;
    let token = server.worker("w1", &["outside"]).await;
    let job = server.submit(json!({"type": "outside"})).await;
    let task = server.send("GET", "/workers/w1/tasks?wait=5000", &token, None).await.expect(200)[0].clone();
    let done = json!({"task_id": task["task_id"], "job_id": job, "status": "success"});
    server.send("POST", "/tasks/result", &token, Some(done)).await.expect(200);
    let metrics = server.get("/metrics").await;
    let text = metrics.body.as_str().expect("text");
    for line in [
        r#"orchestrator_job_latency_ms_count{type="noop"} 1"#,
        r#"orchestrator_job_latency_ms_count{type="outside"} 1"#,
        r#"orchestrator_retry_total{type="fail"} 1"#,
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    assert!(!text.contains(r#"job_latency_ms_count{type="fail"}"#), "it never succeeded");
}
