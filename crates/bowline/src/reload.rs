//! SIGHUP: the configuration is read again, and what can change while the server runs changes.
//!
//! In: a hang-up, from `kill -HUP`, a service manager's reload, or a terminal that closes. Out: what is
//! logged from now on, and a line in the log that names what differs and needs a restart. A configuration that cannot be read changes nothing.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::signal::unix::Signal;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::log::LogLevel;
use crate::serve::ServeArgs;

/// What is needed to read the configuration once more.
#[derive(Debug)]
pub struct Reload {
    pub args: ServeArgs,
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
                    tracing::info!("SIGHUP: configuration read again, log settings applied");
                }
                Ok(waiting) => tracing::warn!(
                    config.needs_restart = waiting.join(", "),
                    "SIGHUP: configuration read again, log settings applied; other changes need a restart"
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
        let mut fresh = self.args.configuration()?;
        if let Some(temporary) = &self.temporary {
            fresh.server.data_dir.clone_from(temporary);
        }
        self.level.set(&fresh.log.level, fresh.log.access)?;
        Ok(running.differs(&fresh))
    }
}
