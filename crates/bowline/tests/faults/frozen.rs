//! F23, F30: a server that stands still, alone and beside another one on the same database.

use std::time::Duration;

use bowline_testkit::{fresh_database, until};
use serde_json::json;

use crate::support::oracle::{Journal, accounted, begun_once};
use crate::support::{SHORT_LEASES, Setup, TestServer};

#[tokio::test]
async fn a_pause_of_the_server_makes_nobody_lost() {
    let mut server = TestServer::with(Setup { config: SHORT_LEASES.to_owned(), ..Setup::default() }).await;
    let token = server.worker("w1", &["long"]).await;
    let job = server.submit(json!({"type": "long"})).await;
    let task = server.send("GET", "/workers/w1/tasks?wait=5000", &token, None).await.expect(200)[0].clone();
    let beat = json!({"runs": [task["task_id"]]});
    server.send("POST", "/workers/w1/heartbeat", &token, Some(beat.clone())).await.expect(200);
    let inside = server.submit(json!({"type": "sleep", "payload": {"ms": 2000}})).await;
    server.until_status(&inside, "running").await;
    server.child().stop();
    // Three leases long. There is nothing to wait for but the time itself.
    tokio::time::sleep(Duration::from_secs(9)).await;
    server.child().cont();
    let answer = server.send("POST", "/workers/w1/heartbeat", &token, Some(beat)).await.expect(200);
    assert_eq!(answer["renewed"], json!([task["task_id"]]), "{answer}");
    let done = json!({"task_id": task["task_id"], "status": "success"});
    server.send("POST", "/tasks/result", &token, Some(done)).await.expect(200);
    for job in [job, inside] {
        begun_once(&server.until_status(&job, "success").await).expect("nobody was given up");
    }
    assert!(server.stop().await.success());
    server.assert_verified();
}

/// The control: the same silence, but it is the worker that stands still and a server that listens all the time.
#[tokio::test]
async fn a_pause_of_the_worker_is_found_out() {
    let server = TestServer::with(Setup { config: SHORT_LEASES.to_owned(), ..Setup::default() }).await;
    let token = server.worker("w1", &["long"]).await;
    let job = server.submit(json!({"type": "long"})).await;
    let task = server.send("GET", "/workers/w1/tasks?wait=5000", &token, None).await.expect(200)[0].clone();
    let beat = json!({"runs": [task["task_id"]]});
    server.send("POST", "/workers/w1/heartbeat", &token, Some(beat.clone())).await.expect(200);
    until(Duration::from_secs(20), "the worker is given up", async || {
        let shown = server.get(&format!("/jobs/{job}")).await.expect(200);
        shown["runs"][0]["status"] == "lost"
    })
    .await;
    let answer = server.send("POST", "/workers/w1/heartbeat", &token, Some(beat)).await.expect(200);
    assert_eq!(answer["renewed"], json!([]), "{answer}");
    assert!(begun_once(&server.get(&format!("/jobs/{job}")).await.expect(200)).is_err());
}

#[tokio::test]
async fn two_servers_on_one_database_go_on_when_one_is_frozen() {
    let database = fresh_database();
    // Servers of one ledger share the place for output.
    let objects = tempfile::tempdir().expect("a directory");
    let config = format!("{SHORT_LEASES}\n[server]\nobjects_dir = {:?}\n", objects.path().display().to_string());
    let setup = Setup { database_url: Some(database.url().to_owned()), config, ..Setup::default() };
    let one = TestServer::with(setup.clone()).await;
    let two = TestServer::with(setup).await;
    let admin = one.admin();
    let mut journal = Journal::new();
    for n in 0..8 {
        let batch: Vec<_> = (0..50)
            .map(|k| json!({"type": "sleep", "payload": {"ms": 20}, "idempotency_key": format!("{n}-{k}")}))
            .collect();
        // From the fourth batch on, one of them is frozen, with runs of its own in hand.
        let server = if n % 2 == 0 && n < 4 { &one } else { &two };
        let answer = server.send("POST", "/jobs/batch", &admin, Some(json!({"jobs": batch}))).await.expect(202);
        let results = answer["results"].as_array().expect("results");
        let ids = results.iter().map(|r| r["job_id"].as_str().expect("id").to_owned());
        journal.extend(ids.enumerate().map(|(k, id)| (format!("{n}-{k}"), id)));
        if n == 3 {
            one.child().stop();
        }
    }
    // The other one does everything, also what the frozen one had begun.
    until(Duration::from_secs(60), "everything is done by the other server", async || {
        let lanes = two.send("GET", "/lanes", &admin, None).await;
        let lanes = lanes.body["lanes"].as_array().cloned().unwrap_or_default();
        let left: u64 =
            lanes.iter().map(|l| l["queued"].as_u64().unwrap_or(1) + l["running"].as_u64().unwrap_or(1)).sum();
        if !lanes.is_empty() && left == 0 { Ok(()) } else { Err(format!("{left} left")) }
    })
    .await;
    one.child().cont();
    one.until_ready().await;
    let jobs = one.jobs().await;
    accounted(&journal, &jobs).expect("everything is done, once");
    assert!(accounted(&journal, &jobs[1..]).is_err(), "the control: one is missing");
    let fresh = one.send("POST", "/jobs", &admin, Some(json!({"type": "noop"}))).await.expect(202);
    let fresh = fresh["job_id"].as_str().expect("id").to_owned();
    until(Duration::from_secs(20), "the thawed server works again", async || {
        two.send("GET", &format!("/jobs/{fresh}"), &admin, None).await.body["job"]["status"] == "success"
    })
    .await;
    two.assert_verified();
}
