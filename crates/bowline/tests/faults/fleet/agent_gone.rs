//! F03, F04: the agent dies, alone or with everything on its host.

use std::time::Duration;

use bowline_testkit::until;
use serde_json::{Value, json};

use super::judge::{executed, printed};
use super::scene::{AgentSetup, Fleet, ask, output, runs_on, server, ticks};

/// F03: the agent is killed while its command runs, and comes back before anybody misses it.
#[tokio::test]
async fn a_command_outlives_its_agent() {
    let server = server().await;
    let mut fleet = Fleet::join(&server, &server.url("")).await;
    let job = ask(&server, fleet.command(4)).await;
    fleet.begun(1).await;
    let killed = fleet.kill_agent();
    fleet.start(None);
    assert_ne!(fleet.agent().pid(), killed, "it is another process");
    let shown = server.until_status(&job, "success").await;
    executed(&fleet.account(), 1, 1).expect("the command ran once");
    printed(&output(&server, &job).await, &ticks(4)).expect("and whole");
    assert_eq!(shown["command"]["hosts"]["by_status"], json!({"success": 1}));
}

/// F03, late: the agent comes back after its runs were called lost; the truth wins.
#[tokio::test]
async fn a_lost_command_that_did_succeed_has_succeeded() {
    let server = server().await;
    let mut fleet = Fleet::join(&server, &server.url("")).await;
    let job = ask(&server, fleet.command(3)).await;
    fleet.begun(1).await;
    fleet.kill_agent();
    let lost = server.until_status(&job, "failed").await;
    assert_eq!(lost["command"]["hosts"]["by_status"], json!({"error": 1}), "{lost}");
    fleet.start(None);
    server.until_status(&job, "success").await;
    executed(&fleet.account(), 1, 1).expect("the command ran once");
    printed(&output(&server, &job).await, &ticks(3)).expect("and whole");
    let events = server.get(&format!("/jobs/{job}/events")).await.expect(200);
    let kinds: Vec<&str> =
        events["events"].as_array().expect("events").iter().filter_map(|e| e["type"].as_str()).collect();
    assert!(kinds.contains(&"job_failed") && kinds.contains(&"job_corrected"), "both are visible: {kinds:?}");
}

/// F04: everything on the host dies. No exit status is invented, and nothing starts again by itself.
#[tokio::test]
async fn a_host_that_crashed_says_so_and_starts_nothing_again() {
    let server = server().await;
    let mut fleet = Fleet::join(&server, &server.url("")).await;
    let job = ask(&server, fleet.command(60)).await;
    fleet.begun(1).await;
    let dead = fleet.processes();
    assert!(dead.len() >= 2, "an agent and a keeper at least: {dead:?}");
    fleet.kill_agent();
    for pid in &dead {
        drop(std::process::Command::new("kill").args(["-9", &pid.to_string()]).status());
    }
    until(Duration::from_secs(10), "the host is dead", async || fleet.processes().is_empty()).await;
    fleet.start(None);
    until(Duration::from_secs(30), "the end is known", async || {
        let runs = runs_on(&server, &job, "web1").await;
        if runs[0]["status"] == "failed" { Ok(()) } else { Err(runs) }
    })
    .await;
    let runs = runs_on(&server, &job, "web1").await;
    assert_eq!(runs[0]["exit_code"], Value::Null, "{runs:?}");
    executed(&fleet.account(), 1, 0).expect("it never came to its end");
    assert_eq!(runs.len(), 1, "nobody tried again: it is not idempotent");
}

/// An agent lets what it executes itself finish; the second signal ends that. What has a keeper does not notice either.
#[tokio::test]
async fn a_second_signal_makes_an_agent_leave_at_once_and_commands_go_on() {
    let server = server().await;
    server.send("PUT", "/hosts/web1", &server.admin(), Some(json!({}))).await.expect(201);
    let args = ["--reach", "simulate", "--latency", "600000:600000"].map(str::to_owned).to_vec();
    let setup = AgentSetup { args, ..AgentSetup::default() };
    let mut fleet = Fleet::join_as(&server, &server.url(""), setup).await;
    let simulated = json!({"connection": {"via": "simulate"}});
    server.send("PUT", "/hosts/played", &server.admin(), Some(simulated)).await.expect(201);
    let inside = ask(&server, json!({"command": {"argv": ["true"]}, "selector": "played"})).await;
    let mut wish = fleet.command(5);
    wish["selector"] = json!("web1");
    let kept = ask(&server, wish).await;
    fleet.begun(1).await;
    until(Duration::from_secs(30), "the other one plays", async || {
        let shown = server.get(&format!("/jobs/{inside}/hosts")).await.expect(200);
        if shown["hosts"][0]["status"] == "running" { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
    fleet.agent().term();
    until(Duration::from_secs(10), "the agent is leaving", async || {
        let log = fleet.agent().log();
        if log.contains("takes nothing more") { Ok(()) } else { Err(log) }
    })
    .await;
    assert!(fleet.agent().is_running(), "what it executes itself may finish");
    fleet.agent().term();
    let status = fleet.agent().wait_exit(Duration::from_secs(10)).await;
    assert_eq!(status.code(), Some(1), "it says that something was left");
    assert!(!fleet.processes().is_empty(), "the command goes on with its keeper");
    fleet.start(None);
    server.until_status(&kept, "success").await;
    executed(&fleet.account(), 1, 1).expect("the command ran once");
    printed(&output(&server, &kept).await, &ticks(5)).expect("and whole");
}
