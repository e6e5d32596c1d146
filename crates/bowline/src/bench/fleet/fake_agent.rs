//! An agent that executes nothing: it joins, takes tasks and says what the bench wants it to say.

use anyhow::{Context, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_model::WorkerName;
use bowline_protocol::enroll_message;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use crate::bench::client::{Line, get, post};
use crate::bench::server::Measured;

pub struct FakeAgent {
    pub name: String,
    pub token: String,
}

impl FakeAgent {
    /// Joins and registers.
    pub async fn join(server: &Measured, name: &str, labels: Value) -> anyhow::Result<Self> {
        let mut line = Line::open(&server.address).await?;
        let mut ask = async |path: &str, token: &str, body: Value| -> anyhow::Result<Value> {
            let (status, answer) = line.send(&post(path, token, &body.to_string())).await?;
            ensure!((200..300).contains(&status), "{path}: {status}: {}", String::from_utf8_lossy(answer));
            Ok(serde_json::from_slice(answer)?)
        };
        let join = ask("/tokens", &server.token, json!({"kind": "join", "name": name, "reach": ["simulate"]})).await?;
        let join = join["token"].as_str().context("no token")?.to_owned();
        let unspecified = |_| anyhow::anyhow!("a key cannot be made");
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(unspecified)?;
        let key = Ed25519KeyPair::from_pkcs8(document.as_ref()).map_err(|e| anyhow::anyhow!("a key: {e}"))?;
        let signature = key.sign(&enroll_message(&join, &WorkerName::new(name)?));
        let body = json!({
            "name": name,
            "public_key": STANDARD.encode(key.public_key().as_ref()),
            "signature": STANDARD.encode(signature.as_ref()),
        });
        let enrolled = ask("/agents/enroll", &join, body).await?;
        let token = enrolled["token"].as_str().context("no token")?.to_owned();
        let body = json!({"worker_id": name, "task_types": ["bowline.command"], "labels": labels, "slots": 1_000});
        ask("/workers/register", &token, body).await?;
        Ok(Self { name: name.to_owned(), token })
    }

    /// Takes this many tasks; says their runs.
    pub async fn runs(&self, server: &Measured, count: usize) -> anyhow::Result<Vec<String>> {
        let tasks = self.tasks(server, count).await?;
        Ok(tasks.iter().filter_map(|task| task["task_id"].as_str().map(str::to_owned)).collect())
    }

    /// Takes this many tasks.
    pub async fn tasks(&self, server: &Measured, count: usize) -> anyhow::Result<Vec<Value>> {
        let mut line = Line::open(&server.address).await?;
        let mut all = Vec::new();
        while all.len() < count {
            let path = format!("/workers/{}/tasks?max=1000&wait=5000", self.name);
            let (status, answer) = line.send(&get(&path, &self.token)).await?;
            ensure!(status == 200, "{status}");
            let tasks: Vec<Value> = serde_json::from_slice(answer)?;
            ensure!(!tasks.is_empty(), "no tasks came");
            all.extend(tasks);
        }
        Ok(all)
    }
}
