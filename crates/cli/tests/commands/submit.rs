//! `job submit`: one, many, and what is safe to send twice.

use std::sync::Mutex;

use bowline_cli::Exit;
use serde_json::json;

use crate::fake::{Fake, Reply, ok, refused};
use crate::jobs::ID;

const ACCEPTED: &str = r#"{"job_id":"0198c0de-0000-7000-8000-000000000001","number":7,"status":"queued",
"queued_at":"2026-01-03T12:00:00Z","idempotency":{"key":"k","replayed":false},"request_id":"r","trace_id":"t"}"#;

#[tokio::test]
async fn every_option_arrives_in_its_place() {
    let fake = Fake::start(|_, _| Reply::Text(202, ACCEPTED.to_owned()));
    let ran = fake
        .run(&[
            "job",
            "submit",
            "mail.send",
            "--payload",
            "{\"n\": 1.00, \"t\":\"{n}\"}",
            "--lane",
            "critical",
            "--priority",
            "-5",
            "--in",
            "10m",
            "--key",
            "k1",
            "--external-id",
            "x1",
            "--max-attempts",
            "9",
            "--run-timeout",
            "30s",
            "--label",
            "site=fra",
            "--label",
            "gpu=a100",
        ])
        .await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Success, &*format!("job {ID} (#7) queued\n")));
    let asked = &fake.asked()[0];
    assert_eq!(asked.line, "POST /jobs");
    assert_eq!(asked.header("content-type").as_deref(), Some("application/json"));
    assert_eq!(asked.header("idempotency-key"), None, "the person's own key is in the body");
    assert!(asked.body.contains("\"payload\":{\"n\": 1.00, \"t\":\"{n}\"}"), "as it was written: {}", asked.body);
    assert_eq!(
        asked.json(),
        json!({
            "type": "mail.send", "payload": {"n": 1.0, "t": "{n}"}, "lane": "critical", "priority": -5,
            "run_at": "2026-01-03T12:10:00.000000Z", "idempotency_key": "k1", "external_id": "x1",
            "labels": {"site": "fra", "gpu": "a100"}, "policy": {"retry": {"max_attempts": 9}, "timeout_ms": 30_000},
        })
    );
}

#[tokio::test]
async fn what_was_not_said_is_not_sent() {
    let fake = Fake::start(|_, _| Reply::Text(202, ACCEPTED.to_owned()));
    fake.run(&["job", "submit", "noop"]).await;
    assert_eq!(fake.asked()[0].body, r#"{"type":"noop","payload":{}}"#);
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_under_the_same_key() {
    let fake = Fake::start(|_, before| match before {
        0 => Reply::Hangup,
        1 => Reply::Later(503, 0),
        _ => Reply::Text(202, ACCEPTED.to_owned()),
    });
    let ran = fake.run(&["job", "submit", "noop", "--json"]).await;
    assert_eq!((ran.exit, ran.out.trim_end()), (Exit::Success, ACCEPTED));
    let keys: Vec<_> = fake.asked().iter().map(|asked| asked.header("idempotency-key").unwrap()).collect();
    assert_eq!(keys.len(), 3);
    assert!(keys[0].starts_with("cli-") && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[tokio::test]
async fn a_replayed_key_is_told() {
    let fake = Fake::start(|_, _| Reply::Text(202, ACCEPTED.replace("false", "true")));
    let ran = fake.run(&["job", "submit", "noop", "--key", "k"]).await;
    assert_eq!(ran.out, format!("job {ID} (#7) queued (the same job as before, by its key)\n"));
}

#[tokio::test]
async fn a_payload_may_come_from_a_file() {
    let fake = Fake::start(|_, _| Reply::Text(202, ACCEPTED.to_owned()));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.json");
    std::fs::write(&path, "[1,\n 2]\n").unwrap();
    let path = path.to_str().unwrap();
    assert_eq!(fake.run(&["job", "submit", "noop", "--payload-file", path]).await.exit, Exit::Success);
    assert_eq!(fake.asked()[0].json()["payload"], json!([1, 2]));
    let ran = fake.run(&["job", "submit", "noop", "--payload-file", "/nowhere/at/all"]).await;
    assert_eq!(ran.exit, Exit::Usage);
    assert!(ran.err.starts_with("error: cannot read /nowhere/at/all: "), "{}", ran.err);
}

#[tokio::test]
async fn a_payload_that_is_no_json_is_a_mistake_of_usage() {
    let fake = Fake::with(&[]);
    let ran = fake.run(&["job", "submit", "noop", "--payload", "{oops"]).await;
    assert_eq!(ran.exit, Exit::Usage);
    assert!(ran.err.starts_with("error: the payload is not JSON: "), "{}", ran.err);
    let ran = fake.run(&["job", "submit", "noop", "--count", "5", "--key", "same"]).await;
    assert_eq!((ran.exit, ran.err.contains("--key needs {n}")), (Exit::Usage, true));
    assert_eq!(fake.lines(), [""; 0], "nothing was sent");
}

/// Answers a batch item by item; the payloads' numbers that `refuse` are refused.
fn batch(asked: &crate::fake::Asked, refuse: u64) -> Reply {
    let jobs = asked.json()["jobs"].as_array().unwrap().clone();
    let mut refused = 0;
    let results: Vec<_> = jobs
        .iter()
        .map(|job| {
            if job["payload"]["i"] == refuse {
                refused += 1;
                return json!({"error": {"code": "TOO_BIG", "message": "too\u{7} big", "details": {}}});
            }
            json!({"job_id": "j", "number": 1, "status": "queued", "queued_at": "2026-01-03T12:00:00Z", "replayed": false})
        })
        .collect();
    let accepted = jobs.len() as u64 - refused;
    let answer =
        json!({"accepted": accepted, "replayed": 0, "refused": refused, "results": results, "request_id": "r"});
    Reply::Text(202, answer.to_string())
}

#[tokio::test]
async fn many_jobs_go_in_batches_of_a_thousand_each_with_its_own_key() {
    let fake = Fake::start(|asked, _| batch(asked, 0));
    let ran = fake.run(&["job", "submit", "noop", "--count", "2500", "--payload", r#"{"i":{n}}"#]).await;
    assert_eq!(ran.exit, Exit::Success);
    assert!(ran.out.starts_with("accepted 2,500 jobs in "), "{}", ran.out);
    let jobs: Vec<Vec<serde_json::Value>> =
        fake.asked().iter().map(|asked| asked.json()["jobs"].as_array().unwrap().clone()).collect();
    assert_eq!(jobs.iter().map(Vec::len).collect::<Vec<_>>(), [1_000, 1_000, 500]);
    assert_eq!(fake.lines(), ["POST /jobs/batch"; 3]);
    let all: Vec<_> = jobs.concat();
    assert!((1..).zip(&all).all(|(n, job)| job["payload"]["i"] == n));
    let keys: std::collections::BTreeSet<_> = all.iter().map(|job| job["idempotency_key"].to_string()).collect();
    assert_eq!(keys.len(), 2_500);
}

#[tokio::test]
async fn large_payloads_go_in_smaller_batches() {
    let fake = Fake::start(|asked, _| batch(asked, 0));
    let payload = format!("{{\"i\":{{n}},\"x\":\"{}\"}}", "x".repeat(1_500_000));
    let ran = fake.run(&["job", "submit", "noop", "--count", "5", "--payload", &payload]).await;
    assert_eq!(ran.exit, Exit::Success);
    let sizes: Vec<_> = fake.asked().iter().map(|asked| asked.json()["jobs"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [2, 2, 1]);
}

#[tokio::test]
async fn refusals_within_a_batch_are_counted_and_told() {
    let fake = Fake::start(|asked, _| batch(asked, 3));
    let args = ["job", "submit", "noop", "--count", "4", "--payload", r#"{"i":{n}}"#];
    let ran = fake.run(&args).await;
    assert_eq!(ran.exit, Exit::Refused);
    assert!(ran.out.starts_with("accepted 3 jobs, refused 1 in "), "{}", ran.out);
    assert_eq!(ran.err, "refused 1: too big (TOO_BIG)\n");
}

#[tokio::test]
async fn batches_with_json_are_one_document() {
    let fake = Fake::start(|asked, _| batch(asked, 3));
    let args = ["--json", "job", "submit", "noop", "--count", "1500", "--payload", r#"{"i":{n}}"#];
    let ran = fake.run(&args).await;
    assert_eq!(ran.exit, Exit::Refused);
    let document = ran.json();
    assert_eq!(document["results"].as_array().unwrap().len(), 1_500);
    assert_eq!((&document["accepted"], &document["refused"]), (&json!(1_499), &json!(1)));
}

#[tokio::test]
async fn a_batch_that_stops_half_way_says_how_to_go_on() {
    let fake =
        Fake::start(|asked, before| if before == 0 { batch(asked, 0) } else { refused(403, "FORBIDDEN", "no more") });
    let ran = fake.run(&["job", "submit", "noop", "--count", "3000"]).await;
    assert_eq!(ran.exit, Exit::Refused);
    let first = fake.asked()[0].json()["jobs"][0]["idempotency_key"].as_str().unwrap().to_owned();
    let template = format!("{}{{n}}", first.strip_suffix('1').unwrap());
    assert!(ran.err.contains("stopped after 1,000 of 3,000 jobs\n"), "{}", ran.err);
    assert!(ran.err.contains(&format!("the same command with --key '{template}' goes on")), "{}", ran.err);
    assert!(ran.err.contains("error: no more\n"));
}

#[tokio::test]
async fn waiting_ends_as_the_job_ends() {
    let status = Mutex::new("queued");
    let fake = Fake::start(move |asked, _| {
        let mut status = status.lock().unwrap();
        match asked.path() {
            "POST /jobs" => Reply::Text(202, ACCEPTED.to_owned()),
            "GET /events/stream" => {
                *status = "canceled";
                Reply::Stream { pieces: vec!["event: x\ndata: {\"event_id\":\"e1\"}\n\n".into()], stays: true }
            }
            path if path.ends_with("/events") => ok(r#"{"events":[],"next_cursor":null}"#),
            _ => ok(json!({"job": {"id": ID, "status": *status, "type": "noop"}, "runs": []}).to_string()),
        }
    });
    let ran = fake.run(&["--json", "job", "submit", "noop", "--wait"]).await;
    assert_eq!(ran.exit, Exit::Canceled);
    assert_eq!(ran.json()["job"]["status"], "canceled", "one document: the job as it ended");
}
