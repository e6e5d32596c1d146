//! Schedules through the door: stored, fired by the clock, started by hand, refused with their places.

use std::time::Duration;

use bowline_testkit::until;
use serde_json::{Value, json};

use crate::support::{Answer, TestServer};

async fn put(server: &TestServer, path: &str, body: Value) -> Answer {
    server.send("PUT", path, &server.admin(), Some(body)).await
}

fn bowline(server: &TestServer, args: &[&str]) -> (i32, String) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bowline"));
    let output = command
        .args(["--server", &server.url("")])
        .args(args)
        .env("BOWLINE_TOKEN", server.admin())
        .output()
        .expect("the program starts");
    (output.status.code().expect("a code"), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn every_second() -> Value {
    json!({"spec": {"every_ms": 1000, "start": {"type": "echo", "payload": {"tick": true}}}})
}

#[tokio::test]
async fn a_schedule_starts_its_jobs_and_shows_what_became_of_them() {
    let server = TestServer::start().await;
    put(&server, "/resources/schedule/ticks", every_second()).await.expect(201);
    let seen = until(Duration::from_secs(30), "the schedule fires twice", async || {
        let jobs = server.get("/jobs").await.expect(200);
        let jobs = jobs["jobs"].as_array().expect("jobs").clone();
        if jobs.len() >= 2 && jobs.iter().any(|job| job["status"] == "success") { Ok(jobs) } else { Err(jobs.len()) }
    })
    .await;
    let schedule = server.get("/schedules/ticks?next=3").await.expect(200);
    assert_eq!((&schedule["active"], &schedule["enabled"]), (&json!(true), &json!(true)), "{schedule}");
    assert!(schedule["last_job_id"].is_string() && schedule["next_at"].is_string(), "{schedule}");
    assert_eq!(schedule["instants"].as_array().expect("instants").len(), 3);
    assert_eq!(schedule["last_error"], Value::Null);
    let job = server.get(&format!("/jobs/{}", seen[0]["id"].as_str().expect("an id"))).await.expect(200);
    assert_eq!(job["job"]["payload"], json!({"tick": true}), "{job}");
    let list = server.get("/schedules").await.expect(200);
    assert_eq!(list["schedules"][0]["name"], "ticks", "{list}");

    let (code, listed) = bowline(&server, &["schedule", "list"]);
    assert!(code == 0 && listed.contains("ticks") && listed.contains("every 1000 ms"), "{listed}");
    let (code, next) = bowline(&server, &["schedule", "next", "ticks", "-n", "2"]);
    assert_eq!((code, next.lines().count()), (0, 3), "{next}");
    let (code, next) = bowline(&server, &["schedule", "next", "--cron", "0 9 L * *", "--timezone", "Asia/Kathmandu"]);
    assert!(code == 0 && next.contains("T09:00:00+05:45"), "{next}");
    let (code, started) = bowline(&server, &["schedule", "trigger", "ticks", "--reason", "by hand"]);
    assert!(code == 0 && started.contains("queued"), "{started}");

    // Disabled, it starts nothing; by hand, it does.
    let mut disabled = every_second();
    disabled["spec"]["enabled"] = json!(false);
    put(&server, "/resources/schedule/ticks", disabled).await.expect(200);
    let before = server.get("/jobs").await.expect(200)["jobs"].as_array().expect("jobs").len();
    let triggered = server.post("/schedules/ticks/trigger", json!({"reason": "to see"})).await.expect(202);
    let after = server.get("/jobs").await.expect(200);
    let after = after["jobs"].as_array().expect("jobs");
    assert_eq!(after.len(), before + 1);
    assert_eq!(after[0]["id"], triggered["job_id"]);
    let audit = server.get("/audit?action=schedule.trigger").await.expect(200);
    let reasons: Vec<&Value> = audit["records"].as_array().expect("records").iter().map(|r| &r["reason"]).collect();
    assert!(reasons.contains(&&json!("to see")) && reasons.contains(&&json!("by hand")), "{audit}");
    assert_eq!(server.get("/schedules/nothing").await.code(), "SCHEDULE_NOT_FOUND");
    assert_eq!(server.post("/schedules/nothing/trigger", json!({})).await.code(), "SCHEDULE_NOT_FOUND");
}

#[tokio::test]
async fn a_schedule_that_cannot_be_is_refused_with_its_place() {
    let server = TestServer::start().await;
    let echo = json!({"type": "echo"});
    for (spec, path) in [
        (json!({"cron": "* * * * * *", "start": echo}), "spec.cron"),
        (json!({"cron": "0 0 30 2 *", "start": echo}), "spec.cron"),
        (json!({"cron": "61 * * * *", "start": echo}), "spec.cron"),
        (json!({"cron": "@daily", "timezone": "Mars/Olympus", "start": echo}), "spec.timezone"),
        (json!({"every_ms": 10, "start": echo}), "spec.every_ms"),
        (json!({"cron": "@daily"}), "spec"),
        (json!({"cron": "@daily", "start": {"type": "echo", "priority": 1000}}), "spec.start.priority"),
        (json!({"cron": "@daily", "start": {"command": "nothing", "selector": "all"}}), "spec.start.command"),
        (json!({"cron": "@daily", "start": {"workflow": "release"}}), "spec.start.workflow"),
        (json!({"cron": "@daily", "start": {"blueprint": "order"}}), "spec.start.blueprint"),
        (json!({"cron": "@daily", "start": {"blueprint": {"name": "order", "version": 3}}}), "spec.start.blueprint"),
    ] {
        let answer = put(&server, "/resources/schedule/bad", json!({"spec": spec})).await;
        assert_eq!(
            (answer.status, answer.body["error"]["details"]["path"].as_str()),
            (422, Some(path)),
            "{spec}: {answer:?}"
        );
    }
    let preview =
        json!({"cron": "30 2 * * *", "timezone": "Europe/Berlin", "count": 2, "after": "2026-03-28T12:00:00Z"});
    let preview = server.post("/schedules/preview", preview).await.expect(200);
    let local: Vec<&str> = preview["instants"]
        .as_array()
        .expect("instants")
        .iter()
        .map(|i| i["local"].as_str().expect("a text"))
        .collect();
    assert_eq!(local, ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]);
    assert_eq!(server.post("/schedules/preview", json!({"cron": "nonsense"})).await.status, 400);
    assert_eq!(server.post("/jobs", json!({"workflow": "release"})).await.code(), "WORKFLOW_NOT_FOUND");
}

#[tokio::test]
async fn a_command_and_its_schedule_are_applied_together() {
    let server = TestServer::start().await;
    let documents = json!({"documents": [
        {"kind": "schedule", "name": "cleaning", "spec": {"cron": "@daily", "start": {"command": "clean", "selector": "all"}}},
        {"kind": "command", "name": "clean", "spec": {"argv": ["true"]}},
    ]});
    let applied = server.post("/apply", documents.clone()).await.expect(200);
    assert_eq!(applied["results"][0]["outcome"], "created", "{applied}");
    let again = server.post("/apply", documents).await.expect(200);
    assert_eq!(again["results"][0]["outcome"], "unchanged", "{again}");
}

/// A schedule never has rights that its owner lacks or has lost.
#[tokio::test]
async fn a_schedule_stops_when_the_token_that_applied_it_is_revoked() {
    let server = TestServer::start().await;
    let scopes = ["resources.write", "resources.read", "jobs.write", "jobs.read"];
    let made = |name: &str| json!({"kind": "api", "name": name, "scopes": scopes, "email": "ann@example.com"});
    let ann = server.post("/tokens", made("ann")).await.expect(201);
    let (id, ann) = (ann["id"].as_str().expect("an id").to_owned(), ann["token"].as_str().expect("a token").to_owned());
    let path = "/resources/schedule/ticks";
    server.send("PUT", path, &ann, Some(every_second())).await.expect(201);
    put(&server, "/resources/schedule/other", every_second()).await.expect(201);
    let fired = async |name: &str| {
        until(Duration::from_secs(30), "the schedule fires", async || {
            let shown = server.get(&format!("/schedules/{name}")).await.expect(200);
            if shown["last_fired_at"].is_string() { Ok(shown) } else { Err(shown.to_string()) }
        })
        .await
    };
    let shown = fired("ticks").await;
    assert_eq!((&shown["owner"]["name"], &shown["stopped"]), (&json!("ann"), &Value::Null), "{shown}");

    let revoked = server.post(&format!("/tokens/{id}/revoke"), json!({})).await.expect(200);
    assert_eq!(revoked["stopped"], json!([{"kind": "schedule", "name": "ticks"}]), "{revoked}");
    let stopped = until(Duration::from_secs(30), "an instant is refused", async || {
        let shown = server.get("/schedules/ticks").await.expect(200);
        if shown["last_error"].is_object() { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await;
    for text in [&stopped["stopped"], &stopped["last_error"]["message"]] {
        let text = text.as_str().expect("a reason");
        assert!(text.contains("was revoked") && text.contains("apply it again"), "{text}");
    }
    let events = server.get("/events?type=schedule_refused").await.expect(200);
    assert!(
        events["events"][0]["data"]["reason"].as_str().is_some_and(|text| text.contains("was revoked")),
        "{events}"
    );
    let metrics = server.get("/metrics").await.body.as_str().expect("text").to_owned();
    assert!(metrics.contains("orchestrator_schedules_stopped 1"), "{metrics}");
    let (code, listed) = bowline(&server, &["schedule", "list"]);
    assert!(code == 0 && listed.contains("stopped") && listed.contains("was revoked"), "{listed}");
    assert_eq!(server.get("/schedules/other").await.expect(200)["stopped"], Value::Null, "the administrator's goes on");

    // Another token of the same person takes it over by applying it again, unchanged.
    let again = server.token(made("ann-2")).await;
    server.send("PUT", path, &again, Some(every_second())).await.expect(200);
    let before = stopped["last_fired_at"].clone();
    until(Duration::from_secs(30), "it fires again", async || {
        let shown = server.get("/schedules/ticks").await.expect(200);
        if shown["last_fired_at"] != before && shown["stopped"].is_null() { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
}

/// By hand, the rights are those of the person who starts it.
#[tokio::test]
async fn starting_a_schedule_by_hand_needs_the_rights_for_what_it_starts() {
    let server = TestServer::start().await;
    put(&server, "/hosts/h1", json!({"connection": {"via": "simulate"}})).await.expect(201);
    let start = json!({"command": {"argv": ["true"]}, "hosts": ["h1"]});
    let spec = json!({"spec": {"every_ms": 3_600_000, "start": start}});
    put(&server, "/resources/schedule/inline", spec).await.expect(201);
    let scopes = json!(["jobs.write", "jobs.read", "resources.write"]);
    let runner = server.token(json!({"kind": "api", "name": "runner", "scopes": scopes})).await;
    let refused = server.send("POST", "/schedules/inline/trigger", &runner, Some(json!({}))).await;
    assert_eq!((refused.status, refused.code()), (403, "FORBIDDEN"), "{refused:?}");
    assert!(refused.body.to_string().contains("fleet.write"), "{refused:?}");
    server.post("/schedules/inline/trigger", json!({})).await.expect(202);
}
