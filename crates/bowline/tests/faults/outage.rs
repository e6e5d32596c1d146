//! F06: PostgreSQL is away under load.

use std::time::{Duration, Instant};

use bowline_testkit::{Postgres, until};
use serde_json::json;

use crate::support::oracle::{answered_well, begun_once};
use crate::support::{SHORT_LEASES, Setup, TestServer};

#[tokio::test]
async fn an_outage_of_the_database_changes_no_outcome() {
    let postgres = Postgres::start();
    let setup =
        Setup { database_url: Some(postgres.create_database()), config: SHORT_LEASES.to_owned(), ..Setup::default() };
    let server = TestServer::with(setup).await;
    let token = server.worker("w1", &["long"]).await;
    // Work of every sort is in flight: remote, built in, queued, scheduled.
    let remote = server.submit(json!({"type": "long"})).await;
    let task = server.send("GET", "/workers/w1/tasks?wait=5000", &token, None).await.expect(200)[0].clone();
    let run = task["task_id"].clone();
    let beat = json!({"runs": [run]});
    server.send("POST", "/workers/w1/heartbeat", &token, Some(beat.clone())).await.expect(200);
    let inside = server.submit(json!({"type": "sleep", "payload": {"ms": 4000}})).await;
    server.until_status(&inside, "running").await;
    let down_at = Instant::now();
    postgres.stop_immediate();
    // Ten leases long.
    let mut refusals = 0;
    while down_at.elapsed() < Duration::from_secs(30) {
        let asked = Instant::now();
        let answer = server.post("/jobs", json!({"type": "noop"})).await;
        answered_well(&answer, asked.elapsed()).expect("a submission");
        assert_eq!(answer.status, 503, "{}", answer.body);
        let asked = Instant::now();
        let answer = server.send("POST", "/workers/w1/heartbeat", &token, Some(beat.clone())).await;
        answered_well(&answer, asked.elapsed()).expect("a heartbeat");
        refusals += 1;
        // The pace of a worker, not a wait.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(refusals >= 10, "the outage was felt {refusals} times");
    assert_eq!(server.try_send("GET", "/readyz", None, None).await.expect("an answer").status, 503);
    assert_eq!(server.try_send("GET", "/healthz", None, None).await.expect("an answer").status, 200);
    let health = server.try_send("GET", "/health", None, None).await.expect("an answer");
    assert_eq!((health.status, &health.body["status"]), (503, &serde_json::json!("degraded")), "{}", health.body);
    // Long after the token was looked up last, the metrics still say what is wrong.
    let metrics = server.get("/metrics").await.expect(200);
    assert!(metrics.as_str().is_some_and(|text| text.contains("orchestrator_degraded 1")), "{metrics}");
    assert_eq!(server.get("/lanes").await.status, 503, "everything else needs to know the token now");
    postgres.start_again();
    server.until_ready().await;
    // The worker was at it all the time, and says so now.
    until(Duration::from_secs(20), "the heartbeat is heard", async || {
        let answer = server.send("POST", "/workers/w1/heartbeat", &token, Some(beat.clone())).await;
        if answer.body["renewed"] == json!([run]) { Ok(()) } else { Err(answer.body.to_string()) }
    })
    .await;
    let done = json!({"task_id": run, "status": "success"});
    server.send("POST", "/tasks/result", &token, Some(done)).await.expect(200);
    for job in [&remote, &inside] {
        let mut shown = server.until_status(job, "success").await;
        begun_once(&shown).expect("no run was called lost");
        // The control: one that was.
        shown["runs"].as_array_mut().expect("runs").insert(0, json!({"status": "lost"}));
        assert!(begun_once(&shown).is_err());
    }
    let metrics = server.get("/metrics").await;
    let text = metrics.body.as_str().unwrap_or("").to_owned();
    assert!(text.contains("orchestrator_runs_lost_total 0"), "{text}");
    let after = server.submit(json!({"type": "noop"})).await;
    server.until_status(&after, "success").await;
    server.assert_verified();
}

/// Every role says in its metrics that the ledger is away, and takes it back.
#[tokio::test]
async fn a_server_without_an_api_says_that_it_is_degraded() {
    let (postgres, objects) = (Postgres::start(), tempfile::tempdir().expect("a directory"));
    let url = postgres.create_database();
    let role = |role: &str| {
        let config = format!("[server]\nrole = {role:?}\nobjects_dir = {:?}\n", objects.path().display().to_string());
        Setup { database_url: Some(url.clone()), config, ..Setup::default() }
    };
    let api = TestServer::with(role("api")).await;
    let background = TestServer::with(role("worker")).await;
    let says = async |wanted: &str| {
        until(Duration::from_secs(60), wanted, async || {
            let metrics = background.send("GET", "/metrics", &api.admin(), None).await;
            let text = metrics.body.as_str().unwrap_or_default();
            if text.lines().any(|line| line == wanted) { Ok(()) } else { Err(format!("{}: {text}", metrics.status)) }
        })
        .await;
    };
    says("orchestrator_degraded 0").await;
    postgres.stop_immediate();
    says("orchestrator_degraded 1").await;
    postgres.start_again();
    says("orchestrator_degraded 0").await;
}
