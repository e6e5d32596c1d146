//! Waiting for the end of jobs: what they wait for, and how each way of waiting ends.

use std::sync::atomic::{AtomicBool, Ordering};

use bowline_cli::Exit;
use serde_json::json;

use crate::fake::{Fake, Reply, ok};
use crate::jobs::ID;

fn job(status: &str) -> Reply {
    ok(json!({"job": {"id": ID, "number": 7, "type": "mail.send", "status": status, "updated_at": "same"}, "runs": []})
        .to_string())
}

/// A job that waits until somebody asks why.
fn until_asked_why() -> Fake {
    let asked_why = AtomicBool::new(false);
    Fake::start(move |asked, _| match asked.path() {
        "GET /events/stream" => Reply::Stream { pieces: vec![": hello\n\n".into()], stays: true },
        path if path.ends_with("/events") => ok(r#"{"events":[]}"#),
        path if path.ends_with("/why") => {
            asked_why.store(true, Ordering::Relaxed);
            ok(r#"{"status":"queued","sentence":"no worker takes mail.send",
                "reasons":[{"code":"no_worker","sentence":"no worker takes mail.send"}]}"#)
        }
        "POST /jobs" | "POST /schedules/nightly/trigger" => {
            ok(json!({"job_id": ID, "number": 7, "status": "queued"}).to_string())
        }
        path if path.ends_with("/retry") => ok(r#"{"status":"queued","changed":true}"#),
        _ => job(if asked_why.load(Ordering::Relaxed) { "success" } else { "queued" }),
    })
}

#[tokio::test]
async fn every_way_of_waiting_says_what_for() {
    let ways: [&[&str]; 4] = [
        &["job", "watch", ID],
        &["job", "submit", "mail.send", "--wait"],
        &["job", "retry", ID, "--wait"],
        &["schedule", "trigger", "nightly", "--wait"],
    ];
    let waiting = ways.map(|args| async move {
        let fake = until_asked_why();
        let ran = fake.run(args).await;
        assert_eq!(ran.exit, Exit::Success, "{args:?}: {ran:?}");
        assert!(ran.err.contains("still waiting: no worker takes mail.send\n"), "{args:?}: {}", ran.err);
    });
    let [a, b, c, d] = waiting;
    tokio::join!(a, b, c, d);
}

#[tokio::test]
async fn a_cancel_waits_until_the_job_is_canceled() {
    for (end, exit) in [("canceled", Exit::Success), ("success", Exit::Refused)] {
        let fake = Fake::start(move |asked, before| match asked.path() {
            "GET /events/stream" => Reply::Stream { pieces: vec![": hello\n\n".into()], stays: true },
            path if path.ends_with("/events") => ok(r#"{"events":[]}"#),
            path if path.ends_with("/cancel") => ok(r#"{"status":"canceling","changed":true}"#),
            _ => job(if before == 0 { "canceling" } else { end }),
        });
        let ran = fake.run(&["job", "cancel", ID, "--wait"]).await;
        assert_eq!(ran.exit, exit, "{ran:?}");
        let ran = fake.run(&["job", "cancel", ID, "--wait", "--json"]).await;
        assert_eq!((ran.exit, &ran.json()["job"]["status"]), (exit, &json!(end)), "one document: {ran:?}");
    }
}

/// An execution with `before` steps, which has ended after three once it was asked to continue.
fn execution(before: u32, order: &'static str) -> Fake {
    let continued = AtomicBool::new(false);
    Fake::start(move |asked, _| match asked.path() {
        path if path.ends_with(order) => {
            continued.store(true, Ordering::Relaxed);
            ok(r#"{"status":"running","changed":true,"decision":"approved"}"#)
        }
        path if path.ends_with("/steps") => {
            let first: u32 = asked.line.split_once("from=").unwrap().1.split('&').next().unwrap().parse().unwrap();
            let step = |n| json!({"n": n, "node": format!("node{n}"), "type": "log", "visit": 1, "status": "success"});
            ok(json!({"steps": (first..=3).map(step).collect::<Vec<_>>(), "next": null}).to_string())
        }
        _ => {
            let (status, steps) = if continued.load(Ordering::Relaxed) { ("success", 3) } else { ("failed", before) };
            ok(json!({"job": {"id": ID, "status": status}, "runs": [], "workflow": {"name": "order", "steps": steps}})
                .to_string())
        }
    })
}

#[tokio::test]
async fn a_retried_or_approved_execution_shows_the_steps_that_follow() {
    let ways: [(&[&str], &str); 3] = [
        (&["workflow", "retry", ID, "--wait"], "/retry"),
        (&["job", "retry", ID, "--wait"], "/retry"),
        (&["approvals", "approve", ID, "--wait"], "/approve"),
    ];
    for (args, order) in ways {
        let ran = execution(1, order).run(args).await;
        assert_eq!(ran.exit, Exit::Success, "{args:?}: {ran:?}");
        assert!(!ran.out.contains("node1"), "{args:?}: what was done before is not shown again: {}", ran.out);
        assert!(ran.out.contains("node2") && ran.out.contains("node3"), "{args:?}: {}", ran.out);
    }
}

/// The last job is the caller's own.
#[tokio::test]
async fn the_last_job_is_the_last_of_the_caller() {
    let fake = Fake::start(|asked, _| match asked.path() {
        "GET /whoami" => ok(r#"{"actor":"token:ann","name":"ann"}"#),
        "GET /jobs" => ok(json!({"jobs": [{"id": ID}], "next_cursor": null}).to_string()),
        _ => job("success"),
    });
    let ran = fake.run(&["job", "get", "--last"]).await;
    assert_eq!(ran.exit, Exit::Success, "{ran:?}");
    assert!(fake.lines()[1].contains("actor=token%3Aann"), "{:?}", fake.lines());
}
