//! F14: there is no room at the agent.
//!
//! Two ways, as for the server: a small file system that is full, and a limit on the size of files, which needs no rights.
//! On the file system new runs are refused, output is cut, and the end fits into what was set aside for it. Under the limit
//! not even the end fits: it is kept by the one who saw it until there is room.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use bowline_testkit::until;
use serde_json::{Value, json};

use super::judge::{executed, nobody_lost, printed, was_full};
use super::scene::{AgentSetup, Fleet, ask, calm_ticks, history, output, runs_on, server, ticks};
use crate::support::TestServer;
use crate::support::small_disk::SmallDisk;

/// More than the 64 MiB below which an agent takes nothing new.
const DISK_MIB: u32 = 80;
const LOUD_LINE_BYTES: usize = 20_000;
const LOUD_SECONDS: usize = 8;

/// A command that prints more in a second than what happens to be left of a page. It shares its host.
fn loud_command(fleet: &Fleet) -> Value {
    let mut wish = fleet.calm_command(0, 0);
    let script = wish["command"]["script"].as_str().expect("a script");
    let print = format!(
        "n=0; while [ $n -lt {LOUD_SECONDS} ]; do head -c {LOUD_LINE_BYTES} /dev/zero | tr '\\0' x; n=$((n+1)); sleep 1; done; echo end"
    );
    wish["command"]["script"] = json!(script.replacen("echo end", &print, 1));
    wish
}

/// A command that is asked for while there is no room, and tried again until there is.
async fn ask_again_and_again(server: &TestServer, fleet: &Fleet) -> String {
    let mut wish = fleet.command(1);
    wish["command"]["lock"] = json!("shared");
    wish["command"]["retry"] = json!({"max_attempts": 200, "base_ms": 300, "factor": 1.0, "max_backoff_ms": 300});
    let job = ask(server, wish).await;
    until(Duration::from_secs(30), "it was refused for want of room", async || {
        let runs = runs_on(server, &job, "web1").await;
        let refused = runs.iter().filter(|run| run["error"]["message"].to_string().contains("NO_SPACE")).count();
        if refused >= 3 { Ok(()) } else { Err(runs) }
    })
    .await;
    job
}

/// On a file system of its own where that is allowed.
#[tokio::test]
async fn a_full_disk_cuts_output_and_refuses_new_runs_and_loses_nothing() {
    let Some(disk) = SmallDisk::mount(DISK_MIB) else {
        eprintln!("NO FILE SYSTEM CAN BE MOUNTED HERE: a limit on the size of files stands in for a full disk");
        return no_room_in_files().await;
    };
    let server = server().await;
    server.send("PUT", "/hosts/web1", &server.admin(), Some(json!({}))).await.expect(201);
    let setup = AgentSetup { data: Some(disk.path().join("agent")), ..AgentSetup::default() };
    let fleet = Fleet::join_as(&server, &server.url(""), setup).await;
    let loud = ask(&server, loud_command(&fleet)).await;
    fleet.begun(1).await;
    was_full(&disk.fill()).expect("the disk is full");
    let pid = fleet.agent().pid();
    let waiting = ask_again_and_again(&server, &fleet).await;
    executed(&fleet.account(), 1, 0).expect("nothing new is begun, and what runs goes on");
    assert!(fleet.agent().log().contains("not enough room on the disk"), "the agent says so");
    // Its end comes through while there is no room.
    let shown = server.until_status(&loud, "success").await;
    assert_eq!(shown["command"]["hosts"]["by_status"], json!({"success": 1}));
    was_full(&disk.fill()).expect("the disk is still full");
    executed(&fleet.account(), 1, 1).expect("nothing new was begun");
    let cut = history(&server).await.into_iter().find(|event| event["data"]["detail"]["kind"] == "output_truncated");
    let cut = cut.expect("that output was cut is told");
    assert_eq!(cut["data"]["detail"]["why"], "no_space");
    let kept = output(&server, &loud).await;
    let right = "x".repeat(LOUD_LINE_BYTES * LOUD_SECONDS);
    assert!(kept.len() < right.len(), "there was no room for all of it");
    assert_eq!(cut["data"]["detail"]["offset"], kept.len(), "everything before the cut is there");
    printed(&kept, &right[..kept.len()]).expect("and it is what was printed");
    std::fs::remove_file(disk.ballast()).expect("the ballast goes");
    server.until_status(&waiting, "success").await;
    assert_eq!(fleet.agent().pid(), pid, "it healed without a restart");
    assert!(fleet.agent().is_running());
    executed(&fleet.account(), 2, 2).expect("each was executed once");
    printed(&output(&server, &waiting).await, &ticks(1)).expect("with room, all output is there");
    nobody_lost(&history(&server).await).expect("nobody was called lost");
    nothing_stays(&fleet).await;
}

/// Without any rights, and harder: what runs cannot write another byte.
#[tokio::test]
async fn an_agent_that_can_write_nothing_keeps_the_end_until_it_can() {
    no_room_in_files().await;
}

async fn no_room_in_files() {
    let server = server().await;
    server.send("PUT", "/hosts/web1", &server.admin(), Some(json!({}))).await.expect(201);
    let setup = AgentSetup { ignores_file_limit: true, ..AgentSetup::default() };
    let fleet = Fleet::join_as(&server, &server.url(""), setup).await;
    let calm = ask(&server, fleet.calm_command(4, 0)).await;
    fleet.begun(1).await;
    let ours = Limited::all(&fleet);
    assert!(ours.0.len() >= 2, "an agent and a keeper: {ours:?}");
    ours.limit("1");
    let waiting = ask_again_and_again(&server, &fleet).await;
    fleet.over(1).await;
    ours.assert_limited();
    executed(&fleet.account(), 1, 1).expect("nothing new was begun");
    let shown = server.get(&format!("/jobs/{calm}")).await.expect(200);
    assert_eq!(shown["job"]["status"], "running", "its end is not on any disk, and so nobody claims it");
    ours.limit("unlimited");
    for job in [&calm, &waiting] {
        server.until_status(job, "success").await;
    }
    executed(&fleet.account(), 2, 2).expect("each was executed once");
    printed(&output(&server, &waiting).await, &ticks(1)).expect("with room, all output is there");
    let kept = output(&server, &calm).await;
    printed(&kept, &calm_ticks(4)[..kept.len()]).expect("what was kept is what was printed");
    let told = history(&server).await;
    nobody_lost(&told).expect("nobody was called lost");
    let cut = told.iter().any(|event| event["data"]["detail"]["kind"] == "output_truncated");
    assert!(cut && kept.len() < calm_ticks(4).len(), "that output was cut is told");
    nothing_stays(&fleet).await;
}

/// When the server has everything, no run is left at the agent.
async fn nothing_stays(fleet: &Fleet) {
    let runs = fleet.data().join("runs");
    until(Duration::from_secs(30), "no run is left at the agent", async || {
        let left: Vec<PathBuf> =
            std::fs::read_dir(&runs).expect("a directory").flatten().map(|entry| entry.path()).collect();
        if left.is_empty() { Ok(()) } else { Err((left, fleet.agent().log())) }
    })
    .await;
}

/// Processes whose files cannot grow: the agent and its keepers, and not their commands, who write the witness.
#[derive(Debug)]
struct Limited(Vec<i32>);

impl Limited {
    fn all(fleet: &Fleet) -> Self {
        let is_ours = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words.get(1).is_some_and(|word| *word == b"agent" || *word == b"keeper")
        };
        Self(fleet.processes().into_iter().filter(is_ours).collect())
    }

    fn limit(&self, bytes: &str) {
        for pid in &self.0 {
            // Only the soft limit, which can be lifted again.
            let limit = format!("--fsize={bytes}:");
            let status = Command::new("prlimit").args(["--pid", &pid.to_string(), &limit]).status();
            assert!(status.expect("prlimit runs").success(), "process {pid} cannot be limited");
        }
    }

    fn assert_limited(&self) {
        for pid in &self.0 {
            let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("it still runs");
            let size = limits.lines().find(|line| line.starts_with("Max file size")).expect("a limit");
            assert_eq!(size.split_whitespace().nth(3), Some("1"), "{size}");
        }
    }
}
