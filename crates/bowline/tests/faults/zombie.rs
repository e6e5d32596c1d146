//! F24, F19, F20, F26: workers that come back from the dead, say everything three times, in any order; and poison.

use std::time::Duration;

use bowline_testkit::until;
use serde_json::{Value, json};

use crate::support::{SHORT_LEASES, Setup, TestServer};

async fn short() -> TestServer {
    TestServer::with(Setup { config: SHORT_LEASES.to_owned(), ..Setup::default() }).await
}

async fn take(server: &TestServer, worker: &str, token: &str) -> Value {
    until(Duration::from_secs(20), "a task is handed out", async || {
        let tasks = server.send("GET", &format!("/workers/{worker}/tasks?wait=2000"), token, None).await.expect(200);
        tasks.get(0).cloned()
    })
    .await
}

#[tokio::test]
async fn a_zombie_cannot_finish_what_somebody_else_has_begun() {
    let mut server = short().await;
    let zombie = server.worker("zombie", &["t"]).await;
    let heir = server.worker("heir", &["t"]).await;
    let job = server.submit(json!({"type": "t"})).await;
    let first = take(&server, "zombie", &zombie).await;
    let named = json!({"runs": [first["task_id"]]});
    server.send("POST", "/workers/zombie/heartbeat", &zombie, Some(named)).await.expect(200);
    // It falls silent, longer than its lease.
    let second = take(&server, "heir", &heir).await;
    assert_eq!(second["attempt"], 2);
    assert!(second["fence"].as_u64() > first["fence"].as_u64());
    assert_eq!(second["idempotency_key"], first["idempotency_key"], "an effect is recognised across attempts");
    let named = json!({"runs": [second["task_id"]]});
    server.send("POST", "/workers/heir/heartbeat", &heir, Some(named)).await.expect(200);
    let late = json!({"task_id": first["task_id"], "fence": first["fence"], "status": "success", "result": "zombie"});
    let refused = server.send("POST", "/tasks/result", &zombie, Some(late)).await;
    assert_eq!((refused.status, refused.code()), (409, "STALE_LEASE"));
    assert_eq!(refused.body["error"]["details"]["evidence_kept"], true);
    let shown = server.get(&format!("/jobs/{job}")).await.expect(200);
    assert_eq!(shown["job"]["status"], "running", "the job belongs to its heir");
    assert_eq!(shown["runs"][0]["status"], "success", "what the zombie did is on its own record");
    let done = json!({"task_id": second["task_id"], "status": "success", "result": "heir"});
    server.send("POST", "/tasks/result", &heir, Some(done)).await.expect(200);
    let shown = server.until_status(&job, "success").await;
    assert_eq!(shown["job"]["result"], "heir");
    let metrics = server.get("/metrics").await.body.as_str().unwrap_or("").to_owned();
    assert!(metrics.contains("orchestrator_stale_write_rejected_total 1"), "{metrics}");
    assert!(server.stop().await.success());
    server.assert_verified();
}

#[tokio::test]
async fn everything_said_three_times_and_backwards_counts_once() {
    let mut server = short().await;
    let token = server.worker("w1", &["t"]).await;
    let job = server.submit(json!({"type": "t"})).await;
    let task = take(&server, "w1", &token).await;
    let run = task["task_id"].as_str().expect("a run");
    let path = format!("/runs/{run}/events");
    let mut added = 0;
    for _ in 0..3 {
        for seq in (1..=50).rev() {
            let body = json!({"events": [{"seq": seq, "data": {"line": seq}}]});
            let ack = server.send("POST", &path, &token, Some(body)).await.expect(200);
            added += ack["added"].as_u64().expect("a number");
            let so_far = ack["acknowledged"].as_u64().expect("a number");
            assert!(so_far == 0 || so_far == 50, "acknowledged {so_far} with a gap before it");
        }
    }
    assert_eq!(added, 50);
    for n in 0..3 {
        let done = json!({"task_id": run, "status": "success", "last_seq": 50});
        let answer = server.send("POST", "/tasks/result", &token, Some(done)).await.expect(200);
        assert_eq!(answer["duplicate"], n > 0);
    }
    let other = json!({"task_id": run, "status": "failure"});
    let refused = server.send("POST", "/tasks/result", &token, Some(other)).await;
    assert_eq!((refused.status, refused.code()), (409, "RUN_FINISHED"));
    let shown = server.until_status(&job, "success").await;
    assert_eq!(shown["runs"][0]["incomplete"], false);
    let events = server.get(&format!("/jobs/{job}/events?limit=500")).await.expect(200);
    let told = events["events"].as_array().expect("events").iter().filter(|e| e["type"] == "run_progressed").count();
    assert_eq!(told, 50);
    assert!(server.stop().await.success());
    server.assert_verified();
}

#[tokio::test]
async fn work_that_kills_its_workers_ends_in_the_dead_letters() {
    let mut server = short().await;
    let token = server.worker("w1", &["poison"]).await;
    let policy = json!({"retry": {"max_losses": 1}});
    let job = server.submit(json!({"type": "poison", "payload": {"exact": 1.10}, "policy": policy})).await;
    for attempt in 1..=2 {
        let task = take(&server, "w1", &token).await;
        assert_eq!(task["attempt"], attempt);
        let named = json!({"runs": [task["task_id"]]});
        server.send("POST", "/workers/w1/heartbeat", &token, Some(named)).await.expect(200);
        // And it dies. A neighbour is not held up.
        let neighbour = server.submit(json!({"type": "noop"})).await;
        server.until_status(&neighbour, "success").await;
    }
    let shown = server.until_status(&job, "dead").await;
    assert_eq!(shown["job"]["error"]["class"], "lost");
    assert_eq!(shown["job"]["payload"].to_string(), r#"{"exact":1.1}"#);
    let list = server.get("/dlq/default").await.expect(200);
    assert_eq!(list["entries"][0]["job_id"], job.as_str());
    assert!(server.stop().await.success());
    server.assert_verified();
}
