//! `bowline migrate`: brings the ledger to this version's shape, as a step of its own.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::config::{Config, ConfigFlags};
use crate::{ledger, modes};

#[derive(Debug, Args)]
pub struct MigrateArgs {
    #[command(flatten)]
    pub config: ConfigFlags,
}

pub async fn migrate(args: MigrateArgs, json: bool) -> anyhow::Result<ExitCode> {
    let config = Config::load(&args.config)?;
    modes::close_new_files();
    let opened = ledger::open(&config, None).await?;
    let migrated = &opened.ledger.migrated;
    if json {
        println!("{}", json!({"version": migrated.version, "applied": migrated.applied}));
    } else if migrated.applied.is_empty() {
        println!("The ledger is at version {}; nothing to do.", migrated.version);
    } else {
        println!("Applied {}; the ledger is at version {}.", migrated.applied.join(", "), migrated.version);
    }
    Ok(ExitCode::SUCCESS)
}
