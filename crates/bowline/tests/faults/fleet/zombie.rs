//! F25: an agent that stands still until its run was given on, and then goes on as if nothing had been.

use std::path::PathBuf;
use std::time::Duration;

use bowline_testkit::{Sshd, until};
use serde_json::{Value, json};

use super::judge::{executed, printed};
use super::scene::{AgentSetup, Fleet, ask, history, metrics, output_on, runs_on, server, ticks};
use crate::support::TestServer;
use crate::support::agent::TestAgent;

/// A command that may be tried again when nobody knows how it ended.
fn idempotent(mut wish: Value) -> Value {
    wish["command"]["idempotent"] = json!(true);
    wish
}

async fn until_lost(server: &TestServer) {
    until(Duration::from_secs(30), "the run is called lost", async || {
        history(server).await.iter().any(|event| event["type"] == "run_lost")
    })
    .await;
}

/// Whether a process stands still.
fn is_frozen(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

fn of_type<'a>(history: &'a [Value], kind: &str) -> Vec<&'a Value> {
    history.iter().filter(|event| event["type"] == kind).collect()
}

/// The agent wakes up while its command still runs. The next attempt waits for it at the host's own gate, and does not begin beside it.
#[tokio::test]
async fn the_next_attempt_does_not_begin_beside_what_a_zombie_left_running() {
    let server = server().await;
    let fleet = Fleet::join(&server, &server.url("")).await;
    // One attempt by default: that the host is busy counts for nothing.
    let job = ask(&server, idempotent(fleet.command(9))).await;
    fleet.begun(1).await;
    fleet.agent().stop();
    until_lost(&server).await;
    assert!(is_frozen(fleet.agent().pid()), "it stood still all the time");
    executed(&fleet.account(), 1, 0).expect("its command goes on");
    let first = runs_on(&server, &job, "web1").await.remove(0);
    assert_eq!(first["status"], "lost", "{first}");
    fleet.agent().cont();
    let second = until(Duration::from_secs(30), "the next attempt is refused by the host", async || {
        let runs = runs_on(&server, &job, "web1").await;
        let busy = |run: &&Value| run["error"]["message"].to_string().contains("busy");
        runs.iter().find(busy).cloned().ok_or(runs)
    })
    .await;
    assert!(second["fence"].as_u64() > first["fence"].as_u64());
    // What it says with its old fence about the new attempt is nobody's word.
    let zombie = TestAgent { server: &server, name: "web1".to_owned(), token: fleet.token() };
    let late = json!({"task_id": second["id"], "fence": first["fence"], "status": "success", "result": "zombie"});
    let refused = zombie.send("POST", "/tasks/result", late).await;
    assert_eq!((refused.status, refused.code()), (409, "STALE_LEASE"), "{}", refused.body);
    server.until_status(&job, "success").await;
    executed(&fleet.account(), 2, 2).expect("one after the other");
    let runs = runs_on(&server, &job, "web1").await;
    let (first, last) = (&runs[0], runs.last().expect("a run"));
    assert_eq!(first["status"], "success", "what the zombie's command did is on its own record: {runs:?}");
    assert_eq!(last["status"], "success", "and the job has the outcome of the last attempt: {runs:?}");
    assert_eq!(fleet.account().starts, [first["id"].as_str().unwrap_or(""), last["id"].as_str().unwrap_or("")]);
    let told = history(&server).await;
    assert_eq!(of_type(&told, "run_lost").len(), 1);
    assert!(!of_type(&told, "run_refused").is_empty(), "{told:?}");
    let corrected = of_type(&told, "run_corrected");
    assert_eq!(corrected.iter().map(|event| &event["data"]["run_id"]).collect::<Vec<_>>(), [&first["id"]]);
    printed(&output_on(&server, &job, "web1").await, &ticks(9)).expect("the output is that of one attempt, whole");
    let metrics = metrics(&server).await;
    assert!(metrics.contains("orchestrator_stale_write_rejected_total 2"), "both late words are counted: {metrics}");
}

/// It wakes up after its command has ended, and after somebody else has executed the next attempt.
#[tokio::test]
async fn what_a_zombie_tells_late_is_evidence_of_its_own_attempt_and_of_no_other() {
    let (server, sshd) = (server().await, Sshd::start());
    let known_hosts: PathBuf = sshd.known_hosts(["127.0.0.1"]);
    let host = json!({"connection": {"via": "ssh", "address": "127.0.0.1", "port": sshd.port()}});
    server.send("PUT", "/hosts/db1", &server.admin(), Some(host)).await.expect(201);
    let reaching = |name: &str| AgentSetup {
        name: name.to_owned(),
        args: [
            "--reach".to_owned(),
            "ssh".to_owned(),
            "--ssh-user".to_owned(),
            sshd.user().to_owned(),
            "--ssh-key".to_owned(),
            sshd.client_key().display().to_string(),
            "--known-hosts".to_owned(),
            known_hosts.display().to_string(),
        ]
        .into(),
        ..AgentSetup::default()
    };
    let zombie = Fleet::join_as(&server, &server.url(""), reaching("zombie")).await;
    let job = ask(&server, idempotent(zombie.command(1))).await;
    zombie.begun(1).await;
    zombie.agent().stop();
    zombie.over(1).await;
    assert!(is_frozen(zombie.agent().pid()));
    let _heir = Fleet::join_as(&server, &server.url(""), reaching("heir")).await;
    // Nobody but a person can know that its command is over: until then the host is kept for it.
    until_lost(&server).await;
    let queue = server.get("/hosts/db1/queue").await.expect(200);
    assert_eq!(queue["kept"][0]["agent"], "zombie", "{queue}");
    executed(&zombie.account(), 1, 1).expect("the heir waits");
    let reason = json!({"reason": "it is over, as anybody can see there"});
    server.post("/hosts/db1/release", reason).await.expect(200);
    server.until_status(&job, "success").await;
    let runs = runs_on(&server, &job, "db1").await;
    let seen: Vec<_> = runs.iter().map(|run| (&run["worker_id"], &run["status"])).collect();
    assert_eq!(seen, [(&json!("zombie"), &json!("lost")), (&json!("heir"), &json!("success"))]);
    zombie.agent().cont();
    until(Duration::from_secs(30), "the zombie has told its end", async || {
        let runs = runs_on(&server, &job, "db1").await;
        if runs[0]["status"] == "success" { Ok(()) } else { Err(runs) }
    })
    .await;
    let after = runs_on(&server, &job, "db1").await;
    assert_eq!(after[1], runs[1], "the attempt of the heir is as it was");
    executed(&zombie.account(), 2, 2).expect("one after the other");
    printed(&output_on(&server, &job, "db1").await, &ticks(1)).expect("the output is that of one attempt, whole");
    let told = history(&server).await;
    let corrected = of_type(&told, "run_corrected");
    assert_eq!(corrected.iter().map(|event| &event["data"]["run_id"]).collect::<Vec<_>>(), [&after[0]["id"]]);
    assert!(of_type(&told, "job_corrected").is_empty(), "the job goes its own way");
    let metrics = metrics(&server).await;
    assert!(metrics.contains("orchestrator_stale_write_rejected_total 1"), "its late word is counted: {metrics}");
}
