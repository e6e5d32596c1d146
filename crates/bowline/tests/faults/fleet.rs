//! Commands on hosts under faults: the agent dies, the host dies, the network goes, the database goes, the past comes back.
//!
//! The command itself is the witness: it writes a line when it starts and one when it ends, to a file the system knows
//! nothing of. A second start, or an end that nobody reported, is read from there.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_testkit::{ChaosProxy, Child, Postgres, until};
use serde_json::{Value, json};

use crate::support::{SHORT_LEASES, Setup, TestServer};

/// The agent as a process of its own, and what its commands write.
struct Fleet {
    directory: tempfile::TempDir,
    agent: Option<Child>,
    url: String,
}

impl Fleet {
    /// Joins as the agent of host `web1`, through this address.
    async fn join(server: &TestServer, url: &str) -> Self {
        let join = server.join_token(json!({})).await;
        server.send("PUT", "/hosts/web1", &server.admin(), Some(json!({}))).await.expect(201);
        let mut fleet = Self { directory: tempfile::tempdir().expect("a directory"), agent: None, url: url.to_owned() };
        fleet.start(Some(&join));
        until(Duration::from_secs(30), "the agent has registered", async || {
            let workers = server.get("/workers").await.expect(200);
            workers["workers"].as_array().is_some_and(|list| list.iter().any(|worker| worker["worker_id"] == "web1"))
        })
        .await;
        fleet
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("agent")
    }

    fn witness(&self) -> PathBuf {
        self.directory.path().join("witness")
    }

    fn start(&mut self, join: Option<&str>) {
        self.start_with(join, &[]);
    }

    fn start_with(&mut self, join: Option<&str>, more: &[&str]) {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bowline"));
        command
            .arg("agent")
            .args(["--server", &self.url, "--name", "web1", "--slots", "64", "--data"])
            .arg(self.data())
            .args(more);
        if let Some(join) = join {
            command.args(["--join", join]);
        }
        self.agent = Some(Child::spawn(command, "agent"));
    }

    fn agent(&self) -> &Child {
        self.agent.as_ref().expect("the agent was started")
    }

    fn kill_agent(&mut self) -> u32 {
        let agent = self.agent.take().expect("the agent was started");
        agent.kill_9();
        agent.pid()
    }

    /// A command that says when it starts and ends, and prints lines in between.
    fn command(&self, seconds: u32) -> Value {
        let script = format!(
            "echo start $BOWLINE_RUN_ID $$ >> {file}; n=0; while [ $n -lt {ticks} ]; do echo tick $n; n=$((n+1)); sleep 0.1; done; echo end $BOWLINE_RUN_ID >> {file}",
            file = self.witness().display(),
            ticks = seconds * 10,
        );
        json!({"command": {"script": script}, "selector": "web1"})
    }

    fn lines(&self, word: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.witness()).unwrap_or_default();
        text.lines().filter(|line| line.starts_with(word)).map(str::to_owned).collect()
    }

    async fn begun(&self, count: usize) {
        until(Duration::from_secs(30), "the command has begun", async || {
            let starts = self.lines("start");
            if starts.len() >= count { Ok(()) } else { Err(starts) }
        })
        .await;
    }

    /// Processes that have to do with this agent: keepers by their command line, commands by their environment.
    fn processes(&self) -> Vec<i32> {
        let mark = self.directory.path().display().to_string();
        let mentions =
            |path: &Path| std::fs::read(path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(&mark));
        let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
            .filter(|pid| *pid != std::process::id().cast_signed())
            .filter(|pid| {
                let proc = PathBuf::from(format!("/proc/{pid}"));
                mentions(&proc.join("cmdline"))
                    || std::fs::read_link(proc.join("cwd")).is_ok_and(|cwd| cwd.starts_with(self.directory.path()))
            })
            .collect()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        drop(self.agent.take());
        for pid in self.processes() {
            // Only what is marked as this test's own.
            drop(std::process::Command::new("kill").args(["-9", &pid.to_string()]).status());
        }
    }
}

async fn ask(server: &TestServer, body: Value) -> String {
    server.post("/jobs", body).await.expect(202)["job_id"].as_str().expect("a job").to_owned()
}

async fn output(server: &TestServer, job: &str) -> String {
    let url = server.url(&format!("/jobs/{job}/output?host=web1"));
    let answer = server.http().get(url).bearer_auth(server.admin()).send().await.expect("an answer");
    answer.text().await.expect("a body")
}

fn ticks(seconds: u32) -> String {
    (0..seconds * 10).map(|n| format!("tick {n}\n")).collect()
}

/// One start, one end, everything printed: whatever happened in between.
async fn whole(server: &TestServer, fleet: &Fleet, job: &str, seconds: u32) -> Result<(), String> {
    let (starts, ends) = (fleet.lines("start"), fleet.lines("end"));
    if starts.len() != 1 || ends.len() != 1 {
        return Err(format!("{} starts and {} ends", starts.len(), ends.len()));
    }
    let printed = output(server, job).await;
    if printed == ticks(seconds) { Ok(()) } else { Err(format!("the output is {printed:?}")) }
}

async fn server() -> TestServer {
    TestServer::with(Setup { config: SHORT_LEASES.to_owned(), ..Setup::default() }).await
}

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
    whole(&server, &fleet, &job, 4).await.expect("the command ran once and whole");
    assert_eq!(shown["command"]["hosts"]["by_status"], json!({"success": 1}));
    // The control: the oracle sees a second start.
    std::fs::write(fleet.witness(), "start a 1\nstart b 2\nend a\n").expect("the witness can be bribed");
    assert!(whole(&server, &fleet, &job, 4).await.is_err());
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
    whole(&server, &fleet, &job, 3).await.expect("the command ran once and whole");
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
        let shown = server.get(&format!("/jobs/{job}/hosts/web1")).await.expect(200);
        let run = &shown["runs"][0];
        if run["status"] == "failed" { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
    let shown = server.get(&format!("/jobs/{job}/hosts/web1")).await.expect(200);
    assert_eq!(shown["runs"][0]["exit_code"], Value::Null, "{shown}");
    assert_eq!((fleet.lines("start").len(), fleet.lines("end").len()), (1, 0));
    assert_eq!(shown["runs"].as_array().map(Vec::len), Some(1), "nobody tried again: it is not idempotent");
}

/// F06: PostgreSQL is away while commands run. Nothing is called lost, and everything is there afterwards.
#[tokio::test]
async fn commands_do_not_notice_that_the_database_is_away() {
    let postgres = Postgres::start();
    let setup =
        Setup { database_url: Some(postgres.create_database()), config: SHORT_LEASES.to_owned(), ..Setup::default() };
    let server = TestServer::with(setup).await;
    let fleet = Fleet::join(&server, &server.url("")).await;
    let mut jobs = Vec::new();
    for seconds in [2, 4, 6, 8, 10, 12, 14, 16, 18, 20] {
        let mut wish = fleet.command(seconds);
        wish["command"]["lock"] = json!("shared");
        jobs.push((ask(&server, wish).await, seconds));
    }
    fleet.begun(jobs.len()).await;
    postgres.stop_immediate();
    until(Duration::from_secs(60), "most commands end in the dark", async || fleet.lines("end").len() >= 8).await;
    assert_eq!(server.post("/jobs", json!({"type": "noop"})).await.status, 503, "the outage was real");
    postgres.start_again();
    server.until_ready().await;
    for (job, seconds) in &jobs {
        server.until_status(job, "success").await;
        assert_eq!(output(&server, job).await, ticks(*seconds), "the output of {job}");
    }
    assert_eq!((fleet.lines("start").len(), fleet.lines("end").len()), (10, 10));
    let lost = server.get("/events?type=run_lost,job_errored,run_returned,run_corrected").await.expect(200);
    assert_eq!(lost["events"], json!([]), "nobody was called lost");
}

/// F21: the agent is cut off for longer than anybody waits, and heals.
#[tokio::test]
async fn a_partition_delays_the_truth_and_does_not_change_it() {
    let server = server().await;
    let proxy = ChaosProxy::start(&server.url(""));
    let fleet = Fleet::join(&server, proxy.url()).await;
    let job = ask(&server, fleet.command(2)).await;
    fleet.begun(1).await;
    proxy.cut();
    server.until_status(&job, "failed").await;
    until(Duration::from_secs(30), "the command ended in the dark", async || fleet.lines("end").len() == 1).await;
    assert!(proxy.connections() > 0, "the agent came through the proxy");
    proxy.heal();
    server.until_status(&job, "success").await;
    whole(&server, &fleet, &job, 2).await.expect("the command ran once and whole");
}

/// F22: a cancel during a partition is delivered when it heals.
#[tokio::test]
async fn a_cancel_reaches_an_agent_that_was_cut_off() {
    let server = server().await;
    let proxy = ChaosProxy::start(&server.url(""));
    let fleet = Fleet::join(&server, proxy.url()).await;
    let job = ask(&server, fleet.command(60)).await;
    fleet.begun(1).await;
    proxy.cut();
    server.post(&format!("/jobs/{job}/cancel"), json!({"reason": "wrong host"})).await.expect(200);
    server.until_status(&job, "canceled").await;
    assert!(fleet.lines("end").is_empty(), "it still runs");
    proxy.heal();
    until(Duration::from_secs(30), "the run was stopped", async || {
        let shown = server.get(&format!("/jobs/{job}/hosts/web1")).await.expect(200);
        if shown["runs"][0]["status"] == "canceled" { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
    assert_eq!((fleet.lines("start").len(), fleet.lines("end").len()), (1, 0));
    assert_eq!(server.get(&format!("/jobs/{job}")).await.expect(200)["job"]["status"], "canceled");
}

/// F35: a server restored from an older copy does not execute again what was executed since.
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
    assert_eq!(fleet.lines("start").len(), 1);
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
    assert_eq!((fleet.lines("start").len(), fleet.lines("end").len()), (1, 1), "it was executed once");
}

/// An agent lets what it executes itself finish; the second signal ends that. What has a keeper does not notice either.
#[tokio::test]
async fn a_second_signal_makes_an_agent_leave_at_once_and_commands_go_on() {
    let server = server().await;
    let mut fleet = Fleet::join(&server, &server.url("")).await;
    fleet.agent().term();
    fleet.agent().wait_exit(Duration::from_secs(30)).await;
    fleet.start_with(None, &["--reach", "simulate", "--latency", "600000:600000"]);
    let simulated = json!({"connection": {"via": "simulate"}});
    server.send("PUT", "/hosts/played", &server.admin(), Some(simulated)).await.expect(201);
    let inside = ask(&server, json!({"command": {"argv": ["true"]}, "selector": "played"})).await;
    let kept = ask(&server, fleet.command(5)).await;
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
    whole(&server, &fleet, &kept, 5).await.expect("the command ran once and whole");
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
