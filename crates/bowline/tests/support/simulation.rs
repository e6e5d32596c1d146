//! An executor for hosts that are reached by `simulate`: it runs nothing and reports as the command asks it to.
//!
//! | program | what comes of it |
//! |---|---|
//! | `flaky` | every third host fails, the first time |
//! | `talk` | says hello on one stream and goodbye on the other |
//! | `stubborn` | does not stop when it is told to |
//! | anything else | succeeds |
//!
//! While it is held, nothing ends but what is canceled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;

use super::TestServer;

const NAME: &str = "simulation";

/// Dropping it stops it.
pub struct Simulation {
    _running: JoinSet<()>,
    held: Arc<AtomicBool>,
}

impl Simulation {
    /// Joins the server and says that it reaches hosts like this.
    pub async fn start(server: &TestServer) -> Self {
        let token = server.agent(NAME, json!({"bowline/reach": "simulate"})).await.token;
        let held = Arc::new(AtomicBool::new(false));
        let executor = Executor {
            http: server.http().clone(),
            url: server.url(""),
            token,
            held: Arc::clone(&held),
            tasks: BTreeMap::new(),
            failed: BTreeSet::new(),
            begun: 0,
        };
        let mut running = JoinSet::new();
        running.spawn(executor.run());
        Self { _running: running, held }
    }

    pub fn hold(&self, held: bool) {
        self.held.store(held, Ordering::Relaxed);
    }
}

struct Executor {
    http: reqwest::Client,
    url: String,
    token: String,
    held: Arc<AtomicBool>,
    tasks: BTreeMap<String, Value>,
    /// Units that have failed once.
    failed: BTreeSet<String>,
    begun: u64,
}

impl Executor {
    /// Outlives the server's restarts: whatever is not answered is asked again.
    async fn run(mut self) {
        loop {
            let ended = self.round().await;
            if !matches!(ended, Some(true)) {
                // A server that is away is not asked in a tight loop.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Option<Value> {
        let method = method.parse().expect("a method");
        let mut request = self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        request.send().await.ok()?.json().await.ok()
    }

    async fn say(&self, run: &str, stream: &str, bytes: &[u8]) -> Option<()> {
        let hash: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let url = format!("{}/runs/{run}/output/{stream}?offset=0", self.url);
        let request = self.http.put(url).bearer_auth(&self.token).body(bytes.to_vec());
        let request = request.header("x-raw-length", bytes.len()).header("x-content-sha256", hash);
        let answer = request.send().await.ok()?;
        assert!(answer.status().is_success(), "{}", answer.status());
        Some(())
    }

    /// Whether something ended.
    async fn round(&mut self) -> Option<bool> {
        let taken = self.call("GET", &format!("/workers/{NAME}/tasks?max=100&wait=20"), None).await?;
        for task in taken.as_array()? {
            self.tasks.insert(task["task_id"].as_str()?.to_owned(), task.clone());
        }
        let runs: Vec<&String> = self.tasks.keys().collect();
        let heard = self.call("POST", &format!("/workers/{NAME}/heartbeat"), Some(json!({ "runs": runs }))).await?;
        for run in heard["stale"].as_array()? {
            self.tasks.remove(run.as_str()?);
        }
        let cancel: BTreeSet<&str> = heard["cancel"].as_array()?.iter().filter_map(Value::as_str).collect();
        let mut ended = false;
        for (run, task) in self.tasks.clone() {
            let program = task["params"]["command"]["spec"]["argv"][0].as_str().unwrap_or("").to_owned();
            let mut report = json!({"task_id": run, "fence": task["fence"], "last_seq": 0});
            if cancel.contains(run.as_str()) && program != "stubborn" {
                report["status"] = json!("canceled");
            } else if self.held.load(Ordering::Relaxed) {
                continue;
            } else {
                self.begun += 1;
                let unit = task["params"]["unit_id"].as_str()?.to_owned();
                if program == "flaky" && self.begun.is_multiple_of(3) && self.failed.insert(unit) {
                    report["status"] = json!("failure");
                    report["error"] = json!({"class": "permanent", "message": "it is flaky"});
                } else {
                    report["status"] = json!("success");
                }
            }
            if program == "talk" {
                self.say(&run, "stdout", b"hello \x1b[2Jthere\n").await?;
                self.say(&run, "stderr", b"goodbye\n").await?;
            }
            self.call("POST", "/tasks/result", Some(report)).await?;
            self.tasks.remove(&run);
            ended = true;
        }
        Some(ended)
    }
}
