//! `bowline verify`: the proof that the tables say what the events say.

use std::process::ExitCode;

use bowline_store::MaintenanceStore;
use clap::Args;
use serde_json::json;

use crate::config::{Config, ConfigFlags};
use crate::ledger;

#[derive(Debug, Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    pub config: ConfigFlags,
    /// Stop after this many faults
    #[arg(long, default_value_t = 100)]
    pub faults_max: usize,
}

pub async fn verify(args: VerifyArgs, json: bool) -> anyhow::Result<ExitCode> {
    let config = Config::load(&args.config)?;
    let opened = ledger::open_as_it_is(&config).await?;
    let verified = opened.ledger.verify(args.faults_max).await?;
    if json {
        println!(
            "{}",
            json!({
                "ok": verified.faults.is_empty(), "jobs": verified.jobs, "runs": verified.runs,
                "events": verified.events, "faults": verified.faults,
            })
        );
    } else {
        for fault in &verified.faults {
            println!("fault: {fault}");
        }
        let verdict = if verified.faults.is_empty() { "all agree" } else { "they do NOT agree" };
        println!("{} jobs, {} runs, {} events: {verdict}.", verified.jobs, verified.runs, verified.events);
    }
    Ok(if verified.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
