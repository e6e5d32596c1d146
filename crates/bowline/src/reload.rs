//! SIGHUP: the configuration is read again, and what can change while the server runs changes.
//!
//! In: a hang-up, from `kill -HUP`, a service manager's reload, or a terminal that closes. Out: the new log level, and a
//! line in the log that names what differs and needs a restart. A configuration that cannot be read changes nothing.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::signal::unix::Signal;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, ConfigFlags};
use crate::log::LogLevel;
use crate::role::Role;

/// What is needed to read the configuration once more.
#[derive(Debug)]
pub struct Reload {
    pub flags: ConfigFlags,
    /// What `--listen` said.
    pub listen: Option<SocketAddr>,
    /// What `--role` said.
    pub role: Option<Role>,
    /// The directory of a server that keeps nothing.
    pub temporary: Option<PathBuf>,
    pub level: LogLevel,
    pub hangup: Mutex<Signal>,
}

impl Reload {
    /// Waits for hang-ups until the server closes.
    pub async fn run(self: Arc<Self>, running: Arc<Config>, stop: CancellationToken) -> anyhow::Result<()> {
        let mut hangup = self.hangup.lock().await;
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                heard = hangup.recv() => if heard.is_none() {
                    stop.cancelled().await;
                    return Ok(());
                },
            }
            match self.reload(&running) {
                Ok(waiting) if waiting.is_empty() => {
                    tracing::info!("SIGHUP: configuration read again, log level applied");
                }
                Ok(waiting) => tracing::warn!(
                    config.needs_restart = waiting.join(", "),
                    "SIGHUP: configuration read again, log level applied; other changes need a restart"
                ),
                Err(error) => tracing::error!(
                    error = format!("{error:#}"),
                    "SIGHUP: the configuration cannot be read, nothing was changed"
                ),
            }
        }
    }

    /// Applies what can be applied; names the sections that differ otherwise.
    fn reload(&self, running: &Config) -> anyhow::Result<Vec<&'static str>> {
        let mut fresh = Config::load(&self.flags)?;
        fresh.server.listen = self.listen.unwrap_or(fresh.server.listen);
        fresh.server.role = self.role.unwrap_or(fresh.server.role);
        if let Some(temporary) = &self.temporary {
            fresh.server.data_dir.clone_from(temporary);
        }
        self.level.set(&fresh.log.level)?;
        Ok(running.differs(&fresh))
    }
}
