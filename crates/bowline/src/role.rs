//! What a server does: everything, only the HTTP API, or only the work in the background.
//!
//! The lease reaper belongs to those who listen: a run is presumed lost only by a server that workers could have reached.

use anyhow::ensure;
use bowline_engine::Services;
use clap::ValueEnum;
use serde::Deserialize;

use crate::config::Config;

/// Which part of the work a server takes. (since 0.1)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The API and everything in the background
    #[default]
    All,
    /// The API: takes jobs, hands them to remote workers and agents, gives up lost leases
    Api,
    /// The background: the built-in worker, timers, schedules, triggers, rollouts, workflows, retention
    Worker,
}

impl Role {
    pub const fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Api => "api",
            Self::Worker => "worker",
        }
    }

    pub const fn services(self) -> Services {
        match self {
            Self::All => Services::ALL,
            Self::Api => Services { api: true, background: false },
            Self::Worker => Services { api: false, background: true },
        }
    }

    /// Several processes need a ledger that they can share.
    pub fn check(self, config: &Config) -> anyhow::Result<()> {
        ensure!(
            self == Self::All || config.database.url.is_some(),
            "--role {role} (server.role) needs PostgreSQL (DATABASE_URL): the embedded ledger belongs to one process, which \
             then has to do everything",
            role = self.word()
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_work_needs_a_ledger_that_others_can_open() {
        let mut config = Config::default();
        assert!(Role::All.check(&config).is_ok());
        for role in [Role::Api, Role::Worker] {
            let error = role.check(&config).unwrap_err().to_string();
            assert!(error.contains(role.word()) && error.contains("PostgreSQL"), "{error}");
        }
        config.database.url = Some("postgres://db/x".to_owned());
        assert!(Role::Api.check(&config).is_ok() && Role::Worker.check(&config).is_ok());
    }
}
