//! `bowline bench`: figures, with their method in bench/README.md.

use std::process::ExitCode;

use clap::{Args, Subcommand};

mod client;
mod figures;
mod fleet;
mod jobs;
mod server;
mod workflow;

#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Durable jobs, end to end, through a server of its own
    Jobs(jobs::JobsArgs),
    /// Commands on many hosts, through the real agent protocol
    Fleet(fleet::FleetArgs),
    /// Runs of workflows: small ones, long ones, sleeping ones
    Workflow(workflow::WorkflowArgs),
}

pub async fn bench(args: BenchArgs, output: Option<bowline_cli::Output>) -> anyhow::Result<ExitCode> {
    match args.what {
        What::Jobs(args) => jobs::run(args, output).await,
        What::Fleet(args) => fleet::run(args, output).await,
        What::Workflow(args) => workflow::run(args, output).await,
    }
}
