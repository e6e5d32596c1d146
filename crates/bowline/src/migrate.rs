//! `bowline migrate`: brings the ledger to this version's shape, as a step of its own.

use std::process::ExitCode;

use bowline_cli::{Output, document};
use clap::Args;
use serde_json::json;

use crate::config::{Config, ConfigFlags};
use crate::{ledger, modes};

#[derive(Debug, Args)]
pub struct MigrateArgs {
    #[command(flatten)]
    pub config: ConfigFlags,
}

pub async fn migrate(args: MigrateArgs, output: Option<Output>) -> anyhow::Result<ExitCode> {
    let config = Config::load(&args.config)?;
    modes::close_new_files();
    let opened = ledger::open(&config, None).await?;
    let migrated = &opened.ledger.migrated;
    let result = json!({"version": migrated.version, "applied": migrated.applied});
    if let Some(text) = document(&result, output) {
        print!("{text}");
    } else if migrated.applied.is_empty() {
        println!("The ledger is at version {}; nothing to do.", migrated.version);
    } else {
        println!("Applied {}; the ledger is at version {}.", migrated.applied.join(", "), migrated.version);
    }
    Ok(ExitCode::SUCCESS)
}
