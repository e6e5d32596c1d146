//! A host with an agent on it, and what its commands write.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bowline_testkit::{Child, until};
use serde_json::{Value, json};

use super::judge::Account;
use crate::support::{SHORT_LEASES, Setup, TestServer};

/// How an agent is started.
#[derive(Debug, Clone)]
pub struct AgentSetup {
    pub name: String,
    /// Where it keeps its things, unless beside the witness.
    pub data: Option<PathBuf>,
    pub env: Vec<(String, String)>,
    pub args: Vec<String>,
    /// The program, unless it is the one that was built.
    pub program: Option<PathBuf>,
    /// A write beyond a limit on the size of files fails with an error, as on a full disk, and not with a signal.
    pub ignores_file_limit: bool,
}

impl Default for AgentSetup {
    fn default() -> Self {
        Self {
            name: "web1".to_owned(),
            data: None,
            env: Vec::new(),
            args: Vec::new(),
            program: None,
            ignores_file_limit: false,
        }
    }
}

/// The agent as a process of its own, and what its commands write.
pub struct Fleet {
    pub directory: tempfile::TempDir,
    agent: Option<Child>,
    url: String,
    setup: AgentSetup,
}

impl Fleet {
    /// Joins as the agent of host `web1`, through this address.
    pub async fn join(server: &TestServer, url: &str) -> Self {
        server.send("PUT", "/hosts/web1", &server.admin(), Some(json!({}))).await.expect(201);
        Self::join_as(server, url, AgentSetup::default()).await
    }

    /// Joins as an agent, whatever hosts there are.
    pub async fn join_as(server: &TestServer, url: &str, setup: AgentSetup) -> Self {
        let join = server.join_token(json!({})).await;
        let directory = tempfile::tempdir().expect("a directory");
        let mut fleet = Self { directory, agent: None, url: url.to_owned(), setup };
        fleet.start(Some(&join));
        until(Duration::from_secs(30), "the agent has registered", async || {
            let workers = server.get("/workers").await.expect(200);
            let list = workers["workers"].as_array().cloned().unwrap_or_default();
            if list.iter().any(|worker| worker["worker_id"] == fleet.setup.name.as_str()) {
                Ok(())
            } else {
                Err(fleet.agent().log())
            }
        })
        .await;
        fleet
    }

    pub fn data(&self) -> PathBuf {
        self.setup.data.clone().unwrap_or_else(|| self.directory.path().join("agent"))
    }

    /// The credential it was given, for whoever wants to speak in its name.
    pub fn token(&self) -> String {
        let text = std::fs::read(self.data().join("credential.json")).expect("the agent is enrolled");
        let credential: Value = serde_json::from_slice(&text).expect("JSON");
        credential["token"].as_str().expect("a token").to_owned()
    }

    pub fn witness(&self) -> PathBuf {
        self.directory.path().join("witness")
    }

    pub fn start(&mut self, join: Option<&str>) {
        let setup = &self.setup;
        let program = setup.program.clone().unwrap_or_else(|| env!("CARGO_BIN_EXE_bowline").into());
        let mut command = if setup.ignores_file_limit {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg("trap '' XFSZ; exec \"$0\" \"$@\"").arg(program);
            shell
        } else {
            Command::new(program)
        };
        command.arg("agent").args([
            "--share-user",
            "--server",
            &self.url,
            "--name",
            &setup.name,
            "--slots",
            "64",
            "--data",
        ]);
        command.arg(self.data()).args(&setup.args).envs(setup.env.iter().cloned());
        if let Some(join) = join {
            command.args(["--join", join]);
        }
        self.agent = Some(Child::spawn(command, &setup.name));
    }

    pub fn agent(&self) -> &Child {
        self.agent.as_ref().expect("the agent was started")
    }

    pub fn kill_agent(&mut self) -> u32 {
        let agent = self.agent.take().expect("the agent was started");
        agent.kill_9();
        agent.pid()
    }

    /// A command that says when it starts and ends, prints ten lines a second in between, and says so if another one runs.
    pub fn command(&self, seconds: u32) -> Value {
        self.ticking(seconds * 10, "0.1", "witness.busy", "tick", 0)
    }

    /// The same, but it wakes up once a second only, prints more when it does, and looks only for others of its own job:
    /// for many that run side by side for long.
    pub fn calm_command(&self, seconds: u32, exit_code: i32) -> Value {
        let mut wish = self.ticking(seconds, "1", "$BOWLINE_JOB_ID.busy", CALM_LINE, exit_code);
        wish["command"]["lock"] = json!("shared");
        wish
    }

    fn ticking(&self, ticks: u32, pause: &str, busy: &str, line: &str, exit_code: i32) -> Value {
        let directory = self.directory.path().display();
        let script = format!(
            "exec 9>> {directory}/{busy}; flock -n 9 || echo overlap $BOWLINE_RUN_ID >> {file}; \
             echo start $BOWLINE_RUN_ID $$ >> {file}; n=0; \
             while [ $n -lt {ticks} ]; do echo {line} $n; n=$((n+1)); sleep {pause}; done; \
             echo end $BOWLINE_RUN_ID >> {file}; exit {exit_code}",
            file = self.witness().display(),
        );
        json!({"command": {"script": script}, "selector": "all"})
    }

    /// What the commands wrote so far.
    pub fn account(&self) -> Account {
        Account::read(&std::fs::read_to_string(self.witness()).unwrap_or_default())
    }

    pub async fn begun(&self, count: usize) {
        until(Duration::from_secs(60), "the command has begun", async || {
            let starts = self.account().starts;
            if starts.len() >= count { Ok(()) } else { Err(starts) }
        })
        .await;
    }

    pub async fn over(&self, count: usize) {
        until(Duration::from_secs(60), "the command has ended", async || {
            let account = self.account();
            if account.ends.len() >= count { Ok(()) } else { Err(account) }
        })
        .await;
    }

    /// Processes that have to do with this agent: keepers by their command line, commands by where they work.
    pub fn processes(&self) -> Vec<i32> {
        let marks = [self.directory.path().to_owned(), self.data()];
        let mentions = |path: &Path| {
            let bytes = std::fs::read(path).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            marks.iter().any(|mark| text.contains(&mark.display().to_string()))
        };
        let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
            .filter(|pid| *pid != std::process::id().cast_signed())
            .filter(|pid| {
                let proc = PathBuf::from(format!("/proc/{pid}"));
                mentions(&proc.join("cmdline"))
                    || std::fs::read_link(proc.join("cwd"))
                        .is_ok_and(|cwd| marks.iter().any(|mark| cwd.starts_with(mark)))
            })
            .collect()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        drop(self.agent.take());
        for pid in self.processes() {
            // Only what is marked as this test's own.
            drop(Command::new("kill").args(["-9", &pid.to_string()]).status());
        }
    }
}

const CALM_LINE: &str = "a line that is long enough to make something of a second of output, number";

/// What [`Fleet::command`] prints.
pub fn ticks(seconds: u32) -> String {
    (0..seconds * 10).map(|n| format!("tick {n}\n")).collect()
}

/// What [`Fleet::calm_command`] prints.
pub fn calm_ticks(seconds: u32) -> String {
    (0..seconds).map(|n| format!("{CALM_LINE} {n}\n")).collect()
}

pub async fn ask(server: &TestServer, body: Value) -> String {
    server.post("/jobs", body).await.expect(202)["job_id"].as_str().expect("a job").to_owned()
}

/// What the server has of a command's output on a host.
pub async fn output_on(server: &TestServer, job: &str, host: &str) -> String {
    let url = server.url(&format!("/jobs/{job}/output?host={host}"));
    let answer = server.http().get(url).bearer_auth(server.admin()).send().await.expect("an answer");
    answer.text().await.expect("a body")
}

pub async fn output(server: &TestServer, job: &str) -> String {
    output_on(server, job, "web1").await
}

/// The attempts of a command on a host, as the server shows them. None before it was begun there.
pub async fn runs_on(server: &TestServer, job: &str, host: &str) -> Vec<Value> {
    let shown = server.get(&format!("/jobs/{job}/hosts/{host}")).await;
    if shown.status == 404 {
        return Vec::new();
    }
    shown.expect(200)["runs"].as_array().expect("runs").clone()
}

/// The whole history, in the ledger's order.
pub async fn history(server: &TestServer) -> Vec<Value> {
    let (mut events, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/events?limit=500{cursor}")).await.expect(200);
        events.extend(page["events"].as_array().expect("events").iter().cloned());
        if page["more"] != true {
            return events;
        }
        cursor = format!("&cursor={}", page["next_cursor"].as_str().expect("there is more"));
    }
}

pub async fn metrics(server: &TestServer) -> String {
    server.get("/metrics").await.body.as_str().expect("text").to_owned()
}

pub async fn server() -> TestServer {
    TestServer::with(Setup { config: SHORT_LEASES.to_owned(), ..Setup::default() }).await
}
