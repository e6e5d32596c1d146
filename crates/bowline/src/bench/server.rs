//! The server that is measured: this same program, as a process of its own on a free port.

use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// A running server; it goes when this goes.
pub struct Measured {
    child: Child,
    directory: PathBuf,
    database_url: Option<String>,
    pub address: String,
    pub token: String,
    /// From the start of the process to the first good answer of `/readyz`.
    pub ready_ms: f64,
}

impl Measured {
    pub async fn start(directory: &Path, database_url: Option<&str>) -> anyhow::Result<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        Self::start_on(format!("127.0.0.1:{port}"), directory, database_url).await
    }

    async fn start_on(address: String, directory: &Path, database_url: Option<&str>) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("this program cannot be found")?;
        let mut command = Command::new(program);
        command.args(["serve", "--listen", &address, "--data-dir"]).arg(directory);
        if let Some(url) = database_url {
            // Measured one after the other, each with a directory of its own.
            command.args(["--adopt-objects", "--database-url", url]);
        }
        // Every request has its line in the log, as in production.
        let mut log = tempfile::tempfile().context("cannot create a file for the server's log")?;
        command.env("LOG_LEVEL", "warn,bowline::access=info").stdout(Stdio::null()).stderr(log.try_clone()?);
        command.env_remove("DATABASE_URL").env_remove("PORT");
        let started = Instant::now();
        let mut child = command.spawn().context("the server cannot be started")?;
        let client = bowline_http::client().no_proxy().build()?;
        loop {
            if let Some(status) = child.try_wait()? {
                let mut said = String::new();
                log.rewind()?;
                log.read_to_string(&mut said)?;
                bail!("the server ended at once: {status}: {}", said.trim_end());
            }
            let answer = client.get(format!("http://{address}/readyz")).send().await;
            if answer.is_ok_and(|a| a.status().is_success()) {
                break;
            }
            if started.elapsed() > Duration::from_secs(60) {
                bail!("the server is not ready after a minute");
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let ready_ms = started.elapsed().as_secs_f64() * 1_000.0;
        let token = std::fs::read_to_string(directory.join("admin.token"))?.trim().to_owned();
        let (directory, database_url) = (directory.to_owned(), database_url.map(str::to_owned));
        Ok(Self { child, directory, database_url, address, token, ready_ms })
    }

    /// Ends it without a warning, as a crash would.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts it again where it was, with what it had.
    pub async fn start_again(&mut self) -> anyhow::Result<()> {
        *self = Self::start_on(self.address.clone(), &self.directory, self.database_url.as_deref()).await?;
        Ok(())
    }

    /// Resident memory, in MiB.
    pub fn memory_mib(&self) -> anyhow::Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = text.lines().find(|l| l.starts_with("VmRSS:")).context("no VmRSS")?;
        let kib: f64 = line.split_whitespace().nth(1).context("no figure")?.parse()?;
        Ok(kib / 1_024.0)
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
