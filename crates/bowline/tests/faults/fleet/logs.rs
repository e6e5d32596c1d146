//! Warnings say what they are about.

use std::time::Duration;

use bowline_testkit::{Child, until};
use serde_json::{Value, json};

use super::scene::{Fleet, ask, runs_on, server};

/// The span of the first log line with these words.
async fn span_of(process: &Child, words: &str) -> Value {
    until(Duration::from_secs(30), &format!("a line that says `{words}`"), async || {
        let log = process.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let said = |line: &Value| line["message"].as_str().is_some_and(|message| message.contains(words));
        lines.into_iter().find(said).map(|line| line["span"].clone()).ok_or(log)
    })
    .await
}

#[tokio::test]
async fn a_warning_names_the_run_with_its_job_and_host_and_the_request() {
    let server = server().await;
    let fleet = Fleet::join(&server, &server.url("")).await;
    let job = ask(&server, json!({"command": {"argv": ["true"], "user": "no-such-user"}, "selector": "all"})).await;
    server.until_status(&job, "failed").await;
    let runs = runs_on(&server, &job, "web1").await;
    let span = span_of(fleet.agent(), "is not begun").await;
    assert_eq!(span, json!({"name": "run", "job.id": job, "run.id": runs[0]["id"], "host.name": "web1"}));

    let url = server.url("/agents/web1?reason=gone");
    let removed = server.http().delete(url).bearer_auth(server.admin()).header("x-request-id", "removal-7").send();
    assert!(removed.await.expect("an answer").status().is_success());
    let span = span_of(server.child(), "agent removed").await;
    assert_eq!(span, json!({"name": "request", "request.id": "removal-7"}));
}
