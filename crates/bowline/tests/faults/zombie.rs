//! F24, F19, F20: workers that come back from the dead, and say everything three times, in any order.

use std::time::Duration;

use bowline_testkit::until;
use serde_json::{Value, json};

use crate::support::oracle::Judgement;
use crate::support::{Answer, SHORT_LEASES, Setup, TestServer};

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

/// The zombie hears that it has no say any more, and that what it said is kept as evidence.
fn refused_but_kept(answer: &Answer) -> Judgement {
    let kept = answer.body["error"]["details"]["evidence_kept"] == true;
    if (answer.status, answer.code(), kept) == (409, "STALE_LEASE", true) { Ok(()) } else { Err(format!("{answer:?}")) }
}

/// Events that a worker numbered from 1 to `last`: each is there, once, whatever the order they were told in.
fn told_once(events: &[Value], last: u64) -> Judgement {
    let told = events.iter().filter(|e| e["type"] == "run_progressed");
    let mut lines: Vec<_> = told.map(|e| e["data"]["detail"]["line"].as_u64().unwrap_or(0)).collect();
    lines.sort_unstable();
    if lines.iter().copied().eq(1..=last) { Ok(()) } else { Err(format!("{lines:?}")) }
}

/// The control: the same silence and the same late word, but nobody else has begun. It counts, and so it was not refused.
#[tokio::test]
async fn a_late_word_that_is_taken_is_not_mistaken_for_one_that_was_refused() {
    let server = short().await;
    let token = server.worker("zombie", &["t"]).await;
    let job = server.submit(json!({"type": "t"})).await;
    let task = take(&server, "zombie", &token).await;
    let named = json!({"runs": [task["task_id"]]});
    server.send("POST", "/workers/zombie/heartbeat", &token, Some(named)).await.expect(200);
    until(Duration::from_secs(20), "the zombie is given up", async || {
        server.get(&format!("/jobs/{job}")).await.expect(200)["runs"][0]["status"] == "lost"
    })
    .await;
    let late = json!({"task_id": task["task_id"], "fence": task["fence"], "status": "success"});
    let answer = server.send("POST", "/tasks/result", &token, Some(late)).await;
    assert!(refused_but_kept(&answer).is_err(), "{answer:?}");
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
    let answer = server.send("POST", "/tasks/result", &zombie, Some(late)).await;
    refused_but_kept(&answer).expect("the zombie is refused");
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
    let events = events["events"].as_array().expect("events");
    told_once(events, 50).expect("each event once");
    // The control: one more, one less, one twice.
    assert!(told_once(events, 49).is_err());
    assert!(told_once(events, 51).is_err());
    let first = events.iter().find(|e| e["type"] == "run_progressed").expect("an event");
    assert!(told_once(&[events.as_slice(), std::slice::from_ref(first)].concat(), 50).is_err());
    assert!(server.stop().await.success());
    server.assert_verified();
}
