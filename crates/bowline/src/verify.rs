//! `bowline verify`: the proof that the tables say what the events say, and that the audit trail is whole.

use std::process::ExitCode;

use bowline_cli::{Output, document};
use bowline_store::{AuditStore, MaintenanceStore};
use clap::Args;
use serde_json::json;

use crate::config::{Config, ConfigFlags};
use crate::{heads, ledger};

#[derive(Debug, Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    pub config: ConfigFlags,
    /// Stop after this many faults
    #[arg(long, default_value_t = 100)]
    pub faults_max: usize,
}

/// What this installation vouched for, held against the ledger. How many signed heads there are.
async fn vouched(ledger: &dyn AuditStore, config: &Config, faults: &mut Vec<String>) -> anyhow::Result<usize> {
    let heads = match heads::kept(&config.server.data_dir) {
        Ok(heads) => heads.unwrap_or_default(),
        Err(error) => {
            faults.push(format!("the signed heads of the audit trail cannot be believed: {error:#}"));
            return Ok(0);
        }
    };
    for head in heads::missing(ledger, &heads).await? {
        faults.push(format!(
            "audit chain {}: record {}, whose head was signed at {}, is missing or another one",
            head.chain, head.number, head.at
        ));
    }
    Ok(heads.len())
}

pub async fn verify(args: VerifyArgs, output: Option<Output>) -> anyhow::Result<ExitCode> {
    let config = Config::load(&args.config)?;
    let opened = ledger::open_as_it_is(&config).await?;
    let mut verified = opened.ledger.verify(args.faults_max).await?;
    let vouched = vouched(&*opened.ledger, &config, &mut verified.faults).await?;
    let result = json!({
        "ok": verified.faults.is_empty(), "jobs": verified.jobs, "runs": verified.runs,
        "events": verified.events, "audit": verified.audit, "audit_heads": vouched,
        "faults": verified.faults,
    });
    if let Some(text) = document(&result, output) {
        print!("{text}");
    } else {
        for fault in &verified.faults {
            println!("fault: {fault}");
        }
        let verdict = if verified.faults.is_empty() { "all agree" } else { "they do NOT agree" };
        println!(
            "{} jobs, {} runs, {} events, {} audit records: {verdict}.",
            verified.jobs, verified.runs, verified.events, verified.audit
        );
    }
    Ok(if verified.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
