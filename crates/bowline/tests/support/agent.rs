//! An agent as the server sees it: a key, a join token, and the words of the protocol. It executes nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_model::WorkerName;
use bowline_protocol::{enroll_message, renew_message, sealing_message};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Answer, TestServer};

/// A key pair of an agent to be.
pub struct AgentKey(Ed25519KeyPair);

impl AgentKey {
    pub fn make() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key can be made");
        Self(Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("a key can be read"))
    }

    pub fn request(&self, join: &str, name: &str) -> Value {
        let worker = WorkerName::new(name).expect("a name");
        let signature = self.0.sign(&enroll_message(join, &worker));
        json!({
            "name": name,
            "public_key": STANDARD.encode(self.0.public_key().as_ref()),
            "signature": STANDARD.encode(signature.as_ref()),
        })
    }

    pub fn renewal(&self, credential: &str, name: &str) -> Value {
        let worker = WorkerName::new(name).expect("a name");
        json!({"signature": STANDARD.encode(self.0.sign(&renew_message(credential, &worker)).as_ref())})
    }

    /// A key for secrets, shown as an agent of this name shows it.
    pub fn sealing_offer(&self, name: &str, public_key: &[u8; 32]) -> Value {
        let worker = WorkerName::new(name).expect("a name");
        let signature = self.0.sign(&sealing_message(&worker, public_key));
        json!({"public_key": STANDARD.encode(public_key), "signature": STANDARD.encode(signature.as_ref())})
    }
}

/// An agent that has joined and registered.
pub struct TestAgent<'a> {
    pub server: &'a TestServer,
    pub name: String,
    pub token: String,
}

impl TestServer {
    /// A join token for any agent, with these labels, that lets it reach what it likes.
    pub async fn join_token(&self, labels: Value) -> String {
        let reach = json!(["ssh", "simulate"]);
        self.token(json!({
            "kind": "join", "name": "*", "labels": labels, "reach": reach, "secrets_for_shared_user": true,
        }))
        .await
    }

    /// An agent that joins and says that it reaches hosts like this.
    pub async fn agent(&self, name: &str, labels: Value) -> TestAgent<'_> {
        let join = self.join_token(json!({})).await;
        let body = AgentKey::make().request(&join, name);
        let enrolled = self.send("POST", "/agents/enroll", &join, Some(body)).await.expect(201);
        let token = enrolled["token"].as_str().expect("a token").to_owned();
        let agent = TestAgent { server: self, name: name.to_owned(), token };
        agent.register(labels).await.expect(200);
        agent
    }

    /// So many hosts that an agent plays, `h0000` and on.
    pub async fn simulated_hosts(&self, count: usize) {
        let hosts: Vec<Value> =
            (0..count).map(|n| json!({"name": format!("h{n:04}"), "connection": {"via": "simulate"}})).collect();
        let put = self.send("PUT", "/inventories/main", &self.admin(), Some(json!({"hosts": hosts}))).await;
        assert!(put.status < 300, "{}", put.body);
    }
}

impl TestAgent<'_> {
    pub async fn register(&self, labels: Value) -> Answer {
        let body = json!({
            "worker_id": self.name, "task_types": ["bowline.command"], "labels": labels, "slots": 10_000,
            "shares_agent_user": false,
        });
        self.server.send("POST", "/workers/register", &self.token, Some(body)).await
    }

    pub async fn send(&self, method: &str, path: &str, body: Value) -> Answer {
        self.server.send(method, path, &self.token, Some(body)).await
    }

    /// Waits for tasks until there are this many.
    pub async fn tasks(&self, count: usize) -> Vec<Value> {
        let mut tasks: Vec<Value> = Vec::new();
        for _ in 0..100 {
            let path = format!("/workers/{}/tasks?max=1000&wait=2000", self.name);
            let answer = self.server.send("GET", &path, &self.token, None).await.expect(200);
            tasks.extend(answer.as_array().expect("a list").iter().cloned());
            if tasks.len() >= count {
                return tasks;
            }
        }
        panic!("{} tasks instead of {count}", tasks.len());
    }

    /// Whether nothing comes for a moment.
    pub async fn nothing_comes(&self) -> bool {
        let path = format!("/workers/{}/tasks?max=1000&wait=300", self.name);
        let answer = self.server.send("GET", &path, &self.token, None).await.expect(200);
        answer.as_array().expect("a list").is_empty()
    }

    /// Tells that a task was begun and ended with this exit code.
    pub async fn finish(&self, task: &Value, exit_code: i32) -> Value {
        let status = if exit_code == 0 { "success" } else { "failure" };
        let mut ended = json!({"status": status, "exit_code": exit_code, "last_seq": 2});
        if exit_code != 0 {
            ended["error"] = json!({"class": "permanent", "message": format!("exit code {exit_code}")});
        }
        self.end(task, ended).await
    }

    /// Reports that a run failed in this way.
    pub async fn fail(&self, task: &Value, class: &str) -> Value {
        let error = json!({"class": class, "message": "it did not work out"});
        self.end(task, json!({"status": "failure", "error": error, "last_seq": 2})).await
    }

    async fn end(&self, task: &Value, ended: Value) -> Value {
        let news = json!({
            "run_id": task["task_id"], "fence": task["fence"],
            "events": [{"seq": 1, "data": {"kind": "started"}}, {"seq": 2, "data": {"kind": "ended"}}],
            "ended": ended,
        });
        self.ship(json!([news])).await.expect(200)["runs"][0].clone()
    }

    pub async fn ship(&self, runs: Value) -> Answer {
        self.send("POST", &format!("/workers/{}/events", self.name), json!({"runs": runs})).await
    }

    /// Brings a range of output.
    pub async fn bring(&self, run: &Value, stream: &str, offset: u64, bytes: &[u8]) -> Answer {
        let hash: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        self.bring_as(run, stream, offset, bytes, bytes.len(), &hash).await
    }

    pub async fn bring_as(
        &self,
        run: &Value,
        stream: &str,
        offset: u64,
        bytes: &[u8],
        length: usize,
        hash: &str,
    ) -> Answer {
        let run = run.as_str().expect("a run's id");
        let url = self.server.url(&format!("/runs/{run}/output/{stream}?offset={offset}"));
        let request = self.server.http().put(url).bearer_auth(&self.token).body(bytes.to_vec());
        let request = request.header("x-raw-length", length).header("x-content-sha256", hash);
        Answer::read(request.send().await.expect("the server answers")).await.expect("an answer")
    }
}

/// The host a task is for.
pub fn host_of(task: &Value) -> &str {
    task["params"]["host"]["name"].as_str().expect("a host's name")
}
