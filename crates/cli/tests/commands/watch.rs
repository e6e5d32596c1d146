//! `job watch`: until the job ends, whatever happens to the stream.

use std::sync::Mutex;

use bowline_cli::Exit;
use serde_json::json;

use crate::fake::{Asked, Fake, Reply, ok, refused};
use crate::jobs::ID;

fn job(status: &str) -> Reply {
    let runs = json!([{"attempt": 1, "status": "running", "worker_id": "w1", "claimed_at": "2026-01-03T11:59:59Z"}]);
    let job = json!({"id": ID, "number": 7, "type": "mail.send", "lane": "default", "status": status, "attempts": 1,
        "max_attempts": 4, "created_at": "2026-01-03T11:59:00Z", "updated_at": status});
    ok(json!({"job": job, "runs": runs}).to_string())
}

fn event(n: u32, kind: &str) -> String {
    json!({"event_id": format!("e{n}"), "ts": "2026-01-03T11:59:58.5Z", "severity": "info", "type": kind,
        "message": "It happened", "data": {"job_id": ID}})
    .to_string()
}

fn sse(n: u32, kind: &str) -> String {
    format!("id: 0-{n}\nevent: {kind}\ndata: {}\n\n", event(n, kind))
}

fn events(list: &[String]) -> Reply {
    ok(format!("{{\"events\":[{}],\"next_cursor\":null}}", list.join(",")))
}

/// A job that runs until the stream was opened, and has ended in `end` when it is looked at after that.
fn until_streamed(end: &'static str) -> Fake {
    let streamed = Mutex::new(false);
    Fake::start(move |asked: &Asked, _| {
        let mut streamed = streamed.lock().unwrap();
        match asked.path() {
            "GET /events/stream" => {
                *streamed = true;
                Reply::Stream { pieces: vec!["retry: 1000\n\n: hello\n\n".into(), sse(2, "run_claimed")], stays: true }
            }
            path if path.ends_with("/events") => {
                let mut list = vec![event(1, "job_queued")];
                if *streamed {
                    list.extend([event(2, "run_claimed"), event(3, "job_succeeded")]);
                }
                events(&list)
            }
            _ => job(if *streamed { end } else { "running" }),
        }
    })
}

#[tokio::test]
async fn the_exit_code_says_how_the_job_ended() {
    for (end, exit) in [
        ("success", Exit::Success),
        ("failed", Exit::Refused),
        ("dead", Exit::Refused),
        ("error", Exit::Refused),
        ("canceled", Exit::Canceled),
    ] {
        assert_eq!(until_streamed(end).run(&["job", "watch", ID]).await.exit, exit, "{end}");
    }
    assert_eq!([Exit::Success, Exit::Refused, Exit::Canceled].map(Exit::code), [0, 1, 3]);
}

#[tokio::test]
async fn every_event_is_shown_once_and_the_job_at_the_end() {
    let fake = until_streamed("success");
    let ran = fake.run(&["job", "watch", ID]).await;
    let mut lines: Vec<_> = ran.out.lines().collect();
    // The stream and the list tell of the same events; which one is faster is not the point.
    lines[1..4].sort_unstable();
    insta::assert_snapshot!(lines.join("\n"), @r"
    job #7 mail.send  running, run 1 on w1
    11:59:58.500Z  info     job_queued            It happened
    11:59:58.500Z  info     job_succeeded         It happened
    11:59:58.500Z  info     run_claimed           It happened
    job #7 mail.send  success
    id        0198c0de-0000-7000-8000-000000000001
    lane      default
    attempts  1 of 4
    created   1m ago

    RUN  STATUS   WORKER  CLAIMED  TOOK  ERROR
      1  running  w1      1s ago
    ");
    assert!(fake.lines().contains(&format!("GET /events/stream?job_id={ID}")));
}

#[tokio::test]
async fn with_json_every_event_is_a_line_and_the_job_is_the_last() {
    let ran = until_streamed("success").run(&["--json", "job", "watch", ID]).await;
    let lines: Vec<serde_json::Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert!(lines[..3].iter().all(|line| line["event_id"].is_string()));
    assert_eq!(lines[3]["job"]["status"], "success");
}

#[tokio::test]
async fn a_job_that_has_ended_is_shown_at_once() {
    let fake =
        Fake::start(
            |asked, _| {
                if asked.path().ends_with("/events") { events(&[event(1, "job_failed")]) } else { job("dead") }
            },
        );
    let ran = fake.run(&["job", "watch", ID]).await;
    assert_eq!(ran.exit, Exit::Refused);
    assert!(ran.out.contains("job_failed"));
    assert_eq!(fake.lines().len(), 2, "no stream is opened");
}

#[tokio::test]
async fn without_a_stream_it_looks_now_and_then() {
    let fake = Fake::start(|asked, before| match asked.path() {
        "GET /events/stream" => refused(403, "FORBIDDEN", "events.read is needed"),
        path if path.ends_with("/events") => refused(403, "FORBIDDEN", "events.read is needed"),
        _ => job(if before == 0 { "running" } else { "success" }),
    });
    let ran = fake.run(&["job", "watch", ID]).await;
    assert_eq!(ran.exit, Exit::Success);
    assert_eq!(ran.err, "no live events (events.read is needed); looking every 2s instead\n");
}

#[tokio::test]
async fn a_job_that_does_not_exist_is_a_refusal() {
    let fake = Fake::start(|_, _| refused(404, "JOB_NOT_FOUND", "no such job"));
    let ran = fake.run(&["job", "watch", ID]).await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Refused, ""));
}
