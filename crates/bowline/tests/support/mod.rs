//! A real server as a process of its own, and a plain client for it.

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
        for name in ["DATABASE_URL", "PORT", "LOG_LEVEL", "BOWLINE_URL", "BOWLINE_TOKEN"] {
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
        self.child = Some(Child::spawn(command, "bowline"));
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
        let answer = request.send().await?;
        let status = answer.status().as_u16();
        let retry_after = answer.headers().get("retry-after").and_then(|v| v.to_str().ok()).map(str::to_owned);
        let text = answer.text().await?;
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(Answer { status, body, retry_after })
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
