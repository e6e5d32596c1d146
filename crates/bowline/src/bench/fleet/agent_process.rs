//! A real agent, as a process of its own.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::json;

use super::ask;
use crate::bench::client::{get, post};
use crate::bench::server::Measured;

/// A running agent; it goes when this goes.
pub struct AgentProcess(Child);

impl AgentProcess {
    /// Joins under this name, with its data in this directory, and waits until it has registered.
    pub async fn join<S: AsRef<OsStr>>(
        server: &Measured,
        name: &str,
        data: &Path,
        args: impl IntoIterator<Item = S>,
    ) -> anyhow::Result<Self> {
        let body = json!({"kind": "join", "name": name, "reach": ["ssh", "simulate"]}).to_string();
        let join = ask(server, post("/tokens", &server.token, &body)).await?;
        let join = join["token"].as_str().context("no join token")?.to_owned();
        let mut agent = Self::start(server, data, ["--join", &join, "--name", name], args)?;
        let begun = Instant::now();
        loop {
            let workers = ask(server, get("/workers", &server.token)).await?;
            if workers["workers"].as_array().is_some_and(|list| list.iter().any(|w| w["worker_id"] == name)) {
                return Ok(agent);
            }
            if let Some(status) = agent.0.try_wait()? {
                bail!("the agent ended at once: {status}");
            }
            ensure!(begun.elapsed() < Duration::from_secs(30), "the agent has not registered after 30 seconds");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Starts one that has joined before.
    pub fn again<S: AsRef<OsStr>>(
        server: &Measured,
        data: &Path,
        args: impl IntoIterator<Item = S>,
    ) -> anyhow::Result<Self> {
        Self::start(server, data, [], args)
    }

    fn start<S: AsRef<OsStr>, const N: usize>(
        server: &Measured,
        data: &Path,
        identity: [&str; N],
        args: impl IntoIterator<Item = S>,
    ) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("this program cannot be found")?;
        let mut command = Command::new(program);
        command
            .args(["agent", "--share-user", "--server", &format!("http://{}", server.address), "--data"])
            .arg(data)
            .args(identity)
            .args(args)
            .env("LOG_LEVEL", "error")
            .stdout(Stdio::null());
        Ok(Self(command.spawn().context("the agent cannot be started")?))
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
