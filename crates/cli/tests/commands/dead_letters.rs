//! `dlq list|replay|purge`.

use bowline_cli::Exit;
use serde_json::json;

use crate::fake::{Cli, Fake, ok};
use crate::jobs::ID;

const OTHER: &str = "0198c0de-0000-7000-8000-000000000002";

#[tokio::test]
async fn without_a_lane_all_lanes_are_listed() {
    let fake = Fake::start(|asked, _| {
        let entries = match asked.path() {
            "GET /dlq/critical" => json!([{"job_id": ID, "number": 1, "type": "mail.send", "lane": "critical",
                "at": "2026-01-03T11:00:00Z", "status": "open", "attempts": 4, "class": "transient", "error": "timeout\u{1b}c"}]),
            "GET /dlq/low" => json!([{"job_id": OTHER, "type": "noop", "lane": "low", "at": "2026-01-02T11:00:00Z",
                "status": "replayed", "attempts": 1, "class": null, "error": "bad", "reason": "fixed",
                "closed_by": "token:2h34", "closer": {"id": "token:2h34", "name": "ann"}}]),
            _ => json!([]),
        };
        ok(json!({"entries": entries, "next_cursor": null}).to_string())
    });
    let ran = fake.run(&["dlq", "list", "--status", "open"]).await;
    insta::assert_snapshot!(ran.out, @r"
    JOB                                   TYPE       LANE      STATUS  TRIES  SINCE   ERROR                CLOSED BY  REASON
    0198c0de-0000-7000-8000-000000000001  mail.send  critical  open        4  1h ago  transient: timeoutc
    0198c0de-0000-7000-8000-000000000002  noop       low       replayed      1  1d ago  bad                  ann        fixed
    ");
    assert_eq!(
        fake.lines(),
        ["critical", "webhook", "default", "low"]
            .map(|lane| format!("GET /dlq/{lane}?status=open&limit={}", if lane == "critical" { 50 } else { 49 }))
    );
    let ran = fake.run(&["--json", "dlq", "list"]).await;
    assert_eq!(ran.json()["entries"].as_array().unwrap().len(), 2);
    assert_eq!(fake.run(&["--json", "dlq", "list", "low"]).await.json()["entries"][0]["job_id"], OTHER);
    let empty = fake.run(&["dlq", "list", "default"]).await;
    assert_eq!(empty.out, "No dead letters here. `bowline lanes` shows where there are some.\n");
}

#[tokio::test]
async fn a_replay_names_its_jobs_and_its_reason() {
    let fake = Fake::start(|_, _| {
        ok(json!({"results": [
            {"job_id": ID, "outcome": "replayed", "new_job_id": OTHER},
            {"job_id": OTHER, "outcome": "already_closed", "status": "purged"},
        ], "changed": 1})
        .to_string())
    });
    let ran = fake.run(&["dlq", "replay", "webhook", "--job", ID, OTHER, "--reason", " the bug is fixed "]).await;
    assert_eq!(ran.exit, Exit::Success);
    insta::assert_snapshot!(ran.out, @r"
    JOB                                   OUTCOME         NOW
    0198c0de-0000-7000-8000-000000000001  replayed        0198c0de-0000-7000-8000-000000000002
    0198c0de-0000-7000-8000-000000000002  already_closed  purged
    replayed 1 of 2
    ");
    let asked = &fake.asked()[0];
    assert_eq!(asked.line, "POST /dlq/webhook/replay");
    assert_eq!(asked.json(), json!({"job_ids": [ID, OTHER], "reason": "the bug is fixed"}));
}

/// A lane in which replaying makes dead letters: there are always more.
fn endless() -> Fake {
    Fake::start(|asked, _| {
        let limit = asked.json()["limit"].as_u64().unwrap();
        let results: Vec<_> = (0..limit).map(|_| json!({"job_id": ID, "outcome": "replayed"})).collect();
        ok(json!({"results": results, "changed": limit}).to_string())
    })
}

#[tokio::test]
async fn all_means_up_to_the_limit_and_never_more() {
    let fake = endless();
    let ran = fake.run(&["dlq", "replay", "low", "--all", "--limit", "250", "--reason", "fixed"]).await;
    assert!(ran.out.ends_with("replayed 250 of 250\n"), "{}", ran.out);
    assert_eq!(ran.err, "there may be more; run it again, or with a higher --limit\n");
    let limits: Vec<_> = fake.asked().iter().map(|asked| asked.json()["limit"].as_u64().unwrap()).collect();
    assert_eq!(limits, [100, 100, 50]);
    assert_eq!(fake.asked()[0].json(), json!({"all": true, "limit": 100, "reason": "fixed"}));
    let ran = endless().run(&["--json", "dlq", "replay", "low", "--all", "--limit", "250", "--reason", "fixed"]).await;
    assert_eq!(ran.json()["changed"], 250);
    assert_eq!(ran.json()["results"].as_array().unwrap().len(), 250);
}

#[tokio::test]
async fn a_dead_letter_that_does_not_exist_is_a_refusal() {
    let fake =
        Fake::start(|_, _| ok(json!({"results": [{"job_id": ID, "outcome": "not_found"}], "changed": 0}).to_string()));
    assert_eq!(fake.run(&["dlq", "replay", "low", "--job", ID, "--reason", "try"]).await.exit, Exit::Refused);
}

#[tokio::test]
async fn a_purge_asks_first_if_there_is_somebody_to_ask() {
    let purge = ["dlq", "purge", "low", "--all", "--reason", "old"];
    let fake = Fake::start(|_, _| ok(r#"{"results":[],"changed":0}"#));
    let ran = fake.run_answering(&purge, Some("n\n")).await;
    assert_eq!((ran.exit, fake.lines().len()), (Exit::Refused, 0));
    assert_eq!(
        ran.err,
        "Purge up to 100 open dead letters of the lane low? They cannot be brought back. [y/N] error: nothing was done\n"
    );
    let ran = fake.run_answering(&purge, Some("yes\n")).await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Success, "The lane low has no open dead letters.\n"));
    assert_eq!(fake.run_answering(&[&purge[..], &["--yes"]].concat(), Some("n\n")).await.exit, Exit::Success);
    assert_eq!(fake.run(&purge).await.exit, Exit::Success);
    assert_eq!(fake.lines(), ["POST /dlq/low/purge"; 3]);
}

#[test]
fn which_ones_and_why_must_be_said() {
    let parse = |args: &[&str]| {
        let line = ["bowline", "dlq", "replay"].into_iter().chain(args.iter().copied());
        <Cli as clap::Parser>::try_parse_from(line).map(|_| ()).map_err(|error| error.exit_code())
    };
    assert_eq!(parse(&["low", "--reason", "why"]), Err(2));
    assert_eq!(parse(&["low", "--all"]), Err(2));
    assert_eq!(parse(&["low", "--all", "--job", ID, "--reason", "why"]), Err(2));
    assert_eq!(parse(&["low", "--job", ID, "--limit", "5", "--reason", "why"]), Err(2));
    assert_eq!(parse(&["fast", "--all", "--reason", "why"]), Err(2));
    assert_eq!(parse(&["low", "--job", ID, "--job", OTHER, "--reason", "why"]), Ok(()));
}
