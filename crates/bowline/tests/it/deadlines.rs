//! Jobs that must have ended by a moment.

use serde_json::{Value, json};

use crate::support::{Setup, TestServer};

fn codes(why: &Value) -> Vec<&str> {
    why["reasons"].as_array().expect("reasons").iter().filter_map(|reason| reason["code"].as_str()).collect()
}

#[tokio::test]
async fn a_job_that_nobody_takes_fails_at_its_deadline_and_says_so_before() {
    let server = TestServer::start().await;
    let job = server.submit(json!({"type": "nobody.takes.this", "deadline_ms": 3_600_000})).await;
    let shown = server.get(&format!("/jobs/{job}")).await.expect(200);
    let at = shown["job"]["deadline_at"].as_str().expect("a deadline").to_owned();
    let why = server.get(&format!("/jobs/{job}/why")).await.expect(200);
    assert_eq!(codes(&why), ["no_worker", "deadline"]);
    assert!(why["reasons"][1]["sentence"].as_str().is_some_and(|text| text.contains(&at)), "{why}");

    let short = server.submit(json!({"type": "nobody.takes.this", "policy": {"deadline_ms": 1_000}})).await;
    let ended = server.until_status(&short, "failed").await;
    assert_eq!(ended["job"]["error"]["class"], "deadline");
    assert_eq!((ended["job"].get("deadline_at"), ended["runs"].as_array().map(Vec::len)), (None, Some(0)));
    let events = server.get(&format!("/jobs/{short}/events")).await.expect(200);
    let kinds: Vec<&str> = events["events"].as_array().unwrap().iter().filter_map(|e| e["type"].as_str()).collect();
    assert_eq!(kinds, ["job_enqueued", "job_deadline_passed"]);
    let why = server.get(&format!("/jobs/{short}/why")).await.expect(200);
    assert!(why["sentence"].as_str().is_some_and(|text| text.contains("deadline")), "{why}");
    // The other one has an hour.
    assert_eq!(server.get(&format!("/jobs/{job}")).await.expect(200)["job"]["status"], "queued");
}

#[tokio::test]
async fn the_server_sets_the_deadline_of_jobs_that_have_none() {
    let env = vec![("JOB_TIMEOUT".to_owned(), "2s".to_owned())];
    let mut server = TestServer::with(Setup { env, ..Setup::default() }).await;
    let key = json!({"type": "sleep", "payload": {"ms": 600_000}, "idempotency_key": "k"});
    let sleeping = server.submit(key.clone()).await;
    let own = server.submit(json!({"type": "nobody.takes.this", "deadline_ms": 3_600_000})).await;
    let ended = server.until_status(&sleeping, "failed").await;
    assert_eq!(ended["job"]["error"]["class"], "deadline");
    assert_eq!(ended["runs"][0]["state"], "timed_out");
    assert_eq!(server.get(&format!("/jobs/{own}")).await.expect(200)["job"]["status"], "queued");
    // The setting is no part of what was asked for.
    server.stop().await;
    server.start_again_unharmed().await;
    let again = server.post("/jobs", key).await.expect(202);
    assert_eq!((again["job_id"].as_str(), &again["idempotency"]["replayed"]), (Some(sleeping.as_str()), &json!(true)));
    server.stop().await;
    server.assert_verified();
}

#[tokio::test]
async fn a_deadline_that_cannot_be_is_refused_and_names_its_field() {
    let server = TestServer::start().await;
    for (body, field) in [
        (json!({"type": "noop", "deadline_ms": 999}), "policy"),
        (json!({"type": "noop", "deadline_ms": 2_592_000_001_u64}), "policy"),
        (json!({"type": "noop", "deadline_ms": 5_000, "policy": {"deadline_ms": 5_000}}), "deadline_ms"),
        (json!({"workflow": "x", "deadline_ms": 5_000}), "deadline_ms"),
    ] {
        let answer = server.post("/jobs", body.clone()).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.body);
        assert_eq!(answer.body["error"]["details"]["field"], field, "{body}: {}", answer.body);
    }
}

/// Time that a command waits for a person is not its own.
#[tokio::test]
async fn waiting_for_approval_does_not_count_towards_the_deadline_of_a_command() {
    let server = TestServer::start().await;
    server.simulated_hosts(1).await;
    let spec = json!({"spec": {"argv": ["true"], "approval": {"four_eyes": false}}});
    server.send("PUT", "/resources/command/restart", &server.admin(), Some(spec)).await.expect(201);
    let body = json!({"command": "restart", "selector": "all", "deadline_ms": 5_000});
    let asked = server.submit(body).await;
    // What was submitted later with the same deadline has failed by it.
    let plain = server.submit(json!({"type": "nobody.takes.this", "deadline_ms": 5_000})).await;
    server.until_status(&plain, "failed").await;
    assert_eq!(server.get(&format!("/jobs/{asked}")).await.expect(200)["job"]["status"], "awaiting_approval");
    let agent = server.agent("agent-1", json!({"bowline/reach": "simulate"})).await;
    server.post(&format!("/jobs/{asked}/approve"), json!({})).await.expect(200);
    let tasks = agent.tasks(1).await;
    agent.finish(&tasks[0], 0).await;
    server.until_status(&asked, "success").await;
    // From the approval on it counts.
    let late = server.submit(json!({"command": "restart", "hosts": ["h0000"], "deadline_ms": 1_000})).await;
    server.post(&format!("/jobs/{late}/approve"), json!({})).await.expect(200);
    let ended = server.until_status(&late, "failed").await;
    assert_eq!(ended["job"]["error"]["class"], "deadline", "{ended}");
}
