//! A real server as a process of its own, and a plain client for it.

pub mod agent;
pub mod oracle;
pub mod queue;
pub mod simulation;
pub mod small_disk;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use bowline_testkit::{Child, free_port, until};
use serde_json::{Value, json};

/// Times short enough for tests: a lease of three seconds.
pub const SHORT_LEASES: &str =
    "[lease]\nttl_ms = 3000\naccept_ms = 1000\nheartbeat_ms = 500\ndeadline_grace_ms = 500\n";

/// How to start a server.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    pub database_url: Option<String>,
    /// More lines of configuration.
    pub config: String,
    pub env: Vec<(String, String)>,
    /// No file of the server may grow beyond this, until [`TestServer::lift_file_limit`].
    pub file_kib_max: Option<u64>,
}

/// A running server.
pub struct TestServer {
    child: Option<Child>,
    directory: tempfile::TempDir,
    data_dir: PathBuf,
    pub port: u16,
    setup: Setup,
    http: reqwest::Client,
}

/// An answer, taken apart.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
    pub retry_after: Option<String>,
}

impl Answer {
    pub async fn read(answer: reqwest::Response) -> Result<Self, reqwest::Error> {
        let status = answer.status().as_u16();
        let retry_after = answer.headers().get("retry-after").and_then(|v| v.to_str().ok()).map(str::to_owned);
        let text = answer.text().await?;
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(Self { status, body, retry_after })
    }

    /// The stable code of a refusal.
    pub fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or("")
    }

    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }
}

/// A client that submits jobs, whether or not the server is there.
#[derive(Debug, Clone)]
pub struct Caller {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl Caller {
    /// Asks once.
    pub async fn submit(&self, key: &str, mut body: Value) -> Result<Answer, reqwest::Error> {
        body["idempotency_key"] = json!(key);
        Answer::read(self.http.post(&self.url).bearer_auth(&self.token).json(&body).send().await?).await
    }

    /// What a careful client does: the same key until it is answered. Says the job's id.
    pub async fn submit_surely(&self, key: &str, body: Value) -> String {
        until(Duration::from_secs(60), &format!("the job of key {key} is promised"), async || {
            match self.submit(key, body.clone()).await {
                Ok(answer) if answer.status == 202 => Ok(answer.body["job_id"].as_str().expect("id").to_owned()),
                Ok(answer) if answer.status == 503 => Err(answer.body.to_string()),
                Ok(answer) => panic!("answered {}: {}", answer.status, answer.body),
                Err(error) => Err(error.to_string()),
            }
        })
        .await
    }
}

impl TestServer {
    pub async fn start() -> Self {
        Self::with(Setup::default()).await
    }

    pub async fn with(setup: Setup) -> Self {
        Self::open(setup, None).await
    }

    /// With the data directory somewhere of the test's choosing.
    pub async fn with_data_dir(setup: Setup, data_dir: PathBuf) -> Self {
        Self::open(setup, Some(data_dir)).await
    }

    async fn open(setup: Setup, data_dir: Option<PathBuf>) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let http = bowline_http::client().no_proxy().timeout(Duration::from_secs(30)).build().expect("a client");
        let data_dir = data_dir.unwrap_or_else(|| directory.path().join("data"));
        let mut server = Self { child: None, directory, data_dir, port: free_port(), setup, http };
        server.launch();
        server.until_ready().await;
        server
    }

    pub fn data_dir(&self) -> PathBuf {
        self.data_dir.clone()
    }

    /// The program with this server's configuration, for a subcommand.
    pub fn command(&self, subcommand: &str) -> Command {
        let config = self.directory.path().join("bowline.toml");
        std::fs::write(&config, &self.setup.config).expect("the configuration can be written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
        command.arg(subcommand).arg("--config").arg(config).arg("--data-dir").arg(self.data_dir());
        for name in ["DATABASE_URL", "PORT", "LOG_LEVEL", "JOB_TIMEOUT", "BOWLINE_URL", "BOWLINE_TOKEN"] {
            command.env_remove(name);
        }
        if let Some(url) = &self.setup.database_url {
            command.arg("--database-url").arg(url);
        }
        command.envs(self.setup.env.iter().cloned());
        command
    }

    pub fn launch(&mut self) {
        let mut command = self.command("serve");
        command.arg("--listen").arg(format!("127.0.0.1:{}", self.port));
        if let Some(kib) = self.setup.file_kib_max {
            command = limited(&command, kib);
        }
        self.child = Some(Child::spawn(command, "bowline"));
    }

    /// Files may grow again, without a restart.
    pub fn lift_file_limit(&self) {
        let mut lift = Command::new("prlimit");
        lift.arg("--pid").arg(self.child().pid().to_string()).arg("--fsize=unlimited");
        assert!(lift.status().expect("prlimit runs").success());
    }

    pub async fn until_ready(&self) {
        let url = self.url("/readyz");
        until(Duration::from_secs(30), "the server is ready", async || {
            let answer = self.http.get(&url).send().await;
            match answer {
                Ok(answer) if answer.status().is_success() => Ok(()),
                Ok(answer) => Err(format!("{}", answer.status())),
                Err(error) => Err(format!("{error}; log: {}", self.child().log())),
            }
        })
        .await;
    }

    pub fn child(&self) -> &Child {
        self.child.as_ref().expect("the server was started")
    }

    pub fn kill_9(&mut self) {
        self.child().kill_9();
        self.child = None;
    }

    /// Stops it the polite way, and says how it ended.
    pub async fn stop(&mut self) -> std::process::ExitStatus {
        self.child().term();
        let status = self.child().wait_exit(Duration::from_secs(40)).await;
        self.child = None;
        status
    }

    /// Starts it again after [`Self::kill_9`] or [`Self::stop`].
    pub async fn start_again(&mut self) {
        self.launch();
        self.until_ready().await;
    }

    /// Starts it again, without what its environment had ordered.
    pub async fn start_again_unharmed(&mut self) {
        self.setup.env.clear();
        self.start_again().await;
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn http(&self) -> &reqwest::Client {
        &self.http
    }

    pub fn admin(&self) -> String {
        let path = self.data_dir().join("admin.token");
        std::fs::read_to_string(path).expect("the administrator's token").trim().to_owned()
    }

    pub async fn try_send(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: Option<Value>,
    ) -> Result<Answer, reqwest::Error> {
        let method = method.parse().expect("a method");
        let mut request = self.http.request(method, self.url(path));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        Answer::read(request.send().await?).await
    }

    pub async fn send(&self, method: &str, path: &str, token: &str, body: Option<Value>) -> Answer {
        match self.try_send(method, path, Some(token), body).await {
            Ok(answer) => answer,
            Err(error) => panic!("{method} {path} was not answered: {error:?}; log: {}", self.child().log()),
        }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &self.admin(), None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, &self.admin(), Some(body)).await
    }

    /// Submits a job and says its id.
    pub async fn submit(&self, body: Value) -> String {
        let answer = self.post("/jobs", body).await.expect(202);
        answer["job_id"].as_str().expect("a job id").to_owned()
    }

    /// Every job there is, in whatever state.
    pub async fn jobs(&self) -> Vec<Value> {
        let mut jobs = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self.get(&format!("/jobs?limit=500{cursor}")).await.expect(200);
            jobs.extend(page["jobs"].as_array().expect("jobs").iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return jobs,
            }
        }
    }

    /// A client that outlives this server's process.
    pub fn caller(&self) -> Caller {
        Caller { http: self.http.clone(), url: self.url("/jobs"), token: self.admin() }
    }

    /// Waits until a job has this status, and shows it.
    pub async fn until_status(&self, job: &str, status: &str) -> Value {
        until(Duration::from_secs(60), &format!("job {job} is {status}"), async || {
            let answer = self.get(&format!("/jobs/{job}")).await;
            if answer.body["job"]["status"] == status { Ok(answer.body) } else { Err(answer.body.to_string()) }
        })
        .await
    }

    /// Waits until nothing is queued or running.
    pub async fn until_idle(&self, patience: Duration) {
        until(patience, "nothing waits or runs", async || {
            let answer = match self.try_send("GET", "/lanes", Some(&self.admin()), None).await {
                Ok(answer) => answer,
                Err(error) => return Err(error.to_string()),
            };
            let lanes = answer.body["lanes"].as_array().cloned().unwrap_or_default();
            let count = |name: &str| lanes.iter().map(|l| l[name].as_u64().unwrap_or(0)).sum::<u64>();
            let left = count("queued") + count("running") + count("scheduled");
            if answer.status == 200 && left == 0 { Ok(()) } else { Err(answer.body.to_string()) }
        })
        .await;
    }

    /// The worker that can be hurt (`faults/worker.py`), as a process of its own.
    pub fn worker_process(&self, name: &str, token: &str) -> Child {
        self.worker_process_through(&self.url(""), name, token)
    }

    /// The same, with its server at another address.
    pub fn worker_process_through(&self, url: &str, name: &str, token: &str) -> Child {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/worker.py");
        let mut command = Command::new("python3");
        command.arg(script).arg(name).env("BOWLINE_URL", url).env("BOWLINE_TOKEN", token);
        Child::spawn(command, name)
    }

    pub async fn token(&self, body: Value) -> String {
        let answer = self.post("/tokens", body).await.expect(201);
        answer["token"].as_str().expect("a token").to_owned()
    }

    /// A registered worker's token.
    pub async fn worker(&self, name: &str, types: &[&str]) -> String {
        let token = self.token(json!({"kind": "worker", "name": name})).await;
        let body = json!({"worker_id": name, "task_types": types, "slots": 100});
        self.send("POST", "/workers/register", &token, Some(body)).await.expect(200);
        token
    }

    /// Runs `bowline verify` on the ledger; the server must be stopped when it is embedded.
    pub fn verify(&self) -> Value {
        let mut command = self.command("verify");
        command.arg("--json");
        let output = command.output().expect("verify runs");
        let text = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&text).unwrap_or_else(|e| {
            panic!("verify said {text} ({e}), {}", String::from_utf8_lossy(&output.stderr));
        })
    }

    #[track_caller]
    pub fn assert_verified(&self) {
        let verified = self.verify();
        assert_eq!(verified["ok"], true, "{verified}");
    }
}

/// The same command under a limit on the size of files. The signal that comes with the limit is ignored, so that writing
/// fails as it does on a full disk: with an error.
fn limited(command: &Command, kib: u64) -> Command {
    let mut shell = Command::new("sh");
    // The shell counts in blocks of 512 bytes. Only the soft limit: it can be lifted again.
    let script = format!("trap '' XFSZ; ulimit -S -f {}; exec \"$0\" \"$@\"", kib * 2);
    shell.arg("-c").arg(script).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}
