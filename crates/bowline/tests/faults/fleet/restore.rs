//! F35: the past comes back.

use std::path::Path;
use std::time::Duration;

use bowline_testkit::until;
use serde_json::json;

use super::judge::executed;
use super::scene::{Fleet, ask, metrics, runs_on, server};
use crate::support::{Setup, TestServer};

/// A server restored from an older copy does not execute again what was executed since.
#[tokio::test]
async fn what_was_executed_is_not_executed_again_after_a_restore() {
    let mut server = server().await;
    let mut fleet = Fleet::join(&server, &server.url("")).await;
    // The agent is away when the copy is made, so the copy has the command in its queue.
    fleet.agent().term();
    fleet.agent().wait_exit(Duration::from_secs(30)).await;
    let job = ask(&server, fleet.command(1)).await;
    server.stop().await;
    let copy = tempfile::tempdir().expect("a directory");
    copy_dir(&server.data_dir(), copy.path());
    server.start_again().await;
    fleet.start(None);
    server.until_status(&job, "success").await;
    executed(&fleet.account(), 1, 1).expect("it was executed");
    fleet.agent().term();
    fleet.agent().wait_exit(Duration::from_secs(30)).await;
    server.stop().await;
    std::fs::remove_dir_all(server.data_dir()).expect("the ledger is lost");
    copy_dir(copy.path(), &server.data_dir());
    server.start_again().await;
    let before = server.get(&format!("/jobs/{job}")).await.expect(200);
    assert_eq!(before["job"]["status"], "running", "the past is back: {before}");
    fleet.start(None);
    server.until_status(&job, "success").await;
    executed(&fleet.account(), 1, 1).expect("it was executed once");
}

/// Puts an older copy in the place of the ledger.
async fn restore(server: &mut TestServer, copy: &Path) {
    server.stop().await;
    std::fs::remove_dir_all(server.data_dir()).expect("the ledger is lost");
    copy_dir(copy, &server.data_dir());
    server.start_again().await;
}

/// A server with time enough between a hand-out and its confirmation.
async fn patient_server() -> TestServer {
    let config = "[lease]\nttl_ms = 15000\naccept_ms = 15000\nheartbeat_ms = 500\ndeadline_grace_ms = 500\n".to_owned();
    TestServer::with(Setup { config, ..Setup::default() }).await
}

/// A command whose run is handed out to an agent that cannot confirm it: its poll waits at the server, and it is stopped.
async fn hand_out_to_a_stopped_agent(server: &TestServer, fleet: &Fleet) -> String {
    let long = Duration::from_secs(120);
    for _ in 0..5 {
        // Registered is not yet asking for work.
        until(long, "the agent's poll waits at the server", async || {
            if polls(server).await? { Ok(()) } else { Err(fleet.agent().log()) }
        })
        .await;
        fleet.agent().stop();
        let job = ask(server, fleet.command(1)).await;
        let handed_out = until(long, "the run is handed out", async || {
            // In this order: a poll that has ended took its run before.
            let polls = polls(server).await?;
            let runs = runs_on(server, &job, "web1").await;
            match runs.iter().any(|run| run["status"] == "starting") {
                true => Ok(true),
                false if !polls && runs.is_empty() => Ok(false),
                false => Err(format!("{runs:?}")),
            }
        })
        .await;
        if handed_out {
            return job;
        }
        // The poll had waited for long enough just then. Once more, with the next one.
        server.post(&format!("/jobs/{job}/cancel"), json!({})).await.expect(200);
        server.until_status(&job, "canceled").await;
        fleet.agent().cont();
    }
    panic!("no poll of the agent waited when it was stopped")
}

/// Whether the one agent's poll waits at the server.
async fn polls(server: &TestServer) -> Result<bool, String> {
    let text = metrics(server).await;
    let waiting = text.lines().find_map(|line| line.strip_prefix("orchestrator_polls_waiting "));
    Ok(waiting.ok_or("the metric is missing")?.trim() != "0")
}

/// The copy has a run that is handed out and not confirmed. Since then it was executed: it is not executed again.
#[tokio::test]
async fn what_was_handed_out_at_the_copy_is_not_executed_again() {
    let mut server = patient_server().await;
    let fleet = Fleet::join(&server, &server.url("")).await;
    let job = hand_out_to_a_stopped_agent(&server, &fleet).await;
    server.kill_9();
    let copy = tempfile::tempdir().expect("a directory");
    copy_dir(&server.data_dir(), copy.path());
    server.start_again().await;
    fleet.agent().cont();
    server.until_status(&job, "success").await;
    executed(&fleet.account(), 1, 1).expect("it was executed");

    restore(&mut server, copy.path()).await;
    // The agent has gone on all the time.
    let shown = server.until_status(&job, "success").await;
    executed(&fleet.account(), 1, 1).expect("it was executed once");
    assert_eq!(shown["command"]["hosts"]["by_status"]["success"], 1, "{shown}");
    // And its host takes new commands.
    let next = ask(&server, fleet.command(1)).await;
    server.until_status(&next, "success").await;
    server.stop().await;
    server.assert_verified();
}

/// What agents know is asked for: ends of what ran at the copy, and jobs that came after it.
#[tokio::test]
async fn what_agents_know_is_taken_over_after_a_restore() {
    let mut server = patient_server().await;
    let fleet = Fleet::join(&server, &server.url("")).await;
    let running = ask(&server, fleet.calm_command(4, 0)).await;
    fleet.begun(1).await;
    server.until_status(&running, "running").await;
    server.kill_9();
    let copy = tempfile::tempdir().expect("a directory");
    copy_dir(&server.data_dir(), copy.path());
    server.start_again().await;
    server.until_status(&running, "success").await;
    let mut later = Vec::new();
    for _ in 0..3 {
        let job = ask(&server, fleet.calm_command(1, 0)).await;
        server.until_status(&job, "success").await;
        later.push(job);
    }
    executed(&fleet.account(), 4, 4).expect("all were executed");

    restore(&mut server, copy.path()).await;
    for job in &later {
        assert_eq!(server.get(&format!("/jobs/{job}")).await.status, 404, "the past is back");
    }
    server.until_status(&running, "success").await;
    let listed = until(Duration::from_secs(30), "what is missing is listed", async || {
        let page = server.get("/evidence/unknown-runs").await.expect(200);
        let runs = page["runs"].as_array().expect("runs").clone();
        if runs.len() == 3 { Ok(runs) } else { Err(page.to_string()) }
    })
    .await;
    for job in &later {
        let run = listed.iter().find(|run| run["job_id"] == json!(job)).expect("each is named");
        assert_eq!((&run["agent"], &run["status"]), (&json!("web1"), &json!("success")), "{run}");
    }
    let events = server.get("/events?type=unknown_runs_found").await.expect(200);
    assert!(!events["events"].as_array().expect("events").is_empty(), "{events}");
    executed(&fleet.account(), 4, 4).expect("nothing was executed again");
    let next = ask(&server, fleet.calm_command(1, 0)).await;
    server.until_status(&next, "success").await;
    server.stop().await;
    server.assert_verified();
}

/// Makes the agent's credential due for its renewal.
fn make_due(server: &TestServer) {
    let ledger =
        rusqlite::Connection::open(server.data_dir().join("bowline.db")).expect("the ledger of a stopped server");
    let changed = ledger.execute(
        "update token set expires_at = created_at + 30 * 86400 * 1000000 where kind = 'wrk' and name = 'web1'",
        [],
    );
    assert_eq!(changed.expect("a change"), 1, "there is one credential");
}

/// The ledger knows the credential from before the renewal only. The agent shows that one, and gets another.
#[tokio::test]
async fn an_agent_that_renewed_since_the_copy_goes_on_with_its_credential_from_before() {
    let mut server = server().await;
    let mut fleet = Fleet::join(&server, &server.url("")).await;
    let first = fleet.token();
    fleet.agent().term();
    fleet.agent().wait_exit(Duration::from_secs(30)).await;
    server.stop().await;
    make_due(&server);
    let copy = tempfile::tempdir().expect("a directory");
    copy_dir(&server.data_dir(), copy.path());
    server.start_again().await;
    fleet.start(None);
    let renewed = async |fleet: &Fleet, not: &[&str]| {
        until(Duration::from_secs(30), "the agent has a new credential", async || {
            let token = fleet.token();
            if not.contains(&token.as_str()) { Err(fleet.agent().log()) } else { Ok(token) }
        })
        .await
    };
    let second = renewed(&fleet, &[&first]).await;

    // It works on while the past comes back.
    restore(&mut server, copy.path()).await;
    let third = renewed(&fleet, &[&first, &second]).await;
    let job = ask(&server, fleet.calm_command(1, 0)).await;
    server.until_status(&job, "success").await;

    // It is away while the past comes back.
    fleet.agent().term();
    fleet.agent().wait_exit(Duration::from_secs(30)).await;
    restore(&mut server, copy.path()).await;
    fleet.start(None);
    renewed(&fleet, &[&first, &second, &third]).await;
    let job = ask(&server, fleet.calm_command(1, 0)).await;
    server.until_status(&job, "success").await;
    server.stop().await;
    server.assert_verified();
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a file is copied");
        }
    }
}
