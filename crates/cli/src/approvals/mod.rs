//! `approvals …`: commands and nodes of workflows that wait for somebody to say yes.

mod decide;
mod list;
mod show;

use clap::{Args, Subcommand};

use crate::client::Client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job_ref::OneJob;
use crate::output::Screen;
use crate::wait::WaitIfAsked;

#[derive(Debug, Clone, Subcommand)]
pub enum ApprovalsCommand {
    /// List what waits, oldest first
    List {
        /// Only what this actor asked for: the name of a token, or as `whoami` says
        #[arg(long)]
        actor: Option<String>,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
        limit: u64,
    },
    /// Show what would run, where, and the votes so far
    Show {
        #[command(flatten)]
        job: OneJob,
    },
    /// Approve a command, or a node of a workflow
    ///
    /// Shows what would run, asks, and approves exactly that: if something else would run by then, the approval does not
    /// count. With --hash nothing is shown, and the approval is for what has this hash.
    #[command(after_help = "Examples:
  bowline approvals approve JOB
  bowline approvals approve JOB --hash HASH --reason 'change 4711'")]
    Approve(ApproveArgs),
    /// Reject a command, which will not run, or a node of a workflow
    Reject {
        #[command(flatten)]
        job: OneJob,
        /// Of a workflow: which node, if several wait
        #[arg(long)]
        node: Option<String>,
        /// Why; it is kept with the job
        #[arg(long)]
        reason: String,
    },
}

#[derive(Debug, Clone, Args)]
pub struct ApproveArgs {
    #[command(flatten)]
    job: OneJob,
    /// Why; it is kept with the job
    #[arg(long)]
    reason: Option<String>,
    /// The hash of what you looked at, as `approvals show` prints it
    #[arg(long)]
    hash: Option<String>,
    /// Of a workflow: which node, if several wait
    #[arg(long, conflicts_with = "hash")]
    node: Option<String>,
    /// Skip the confirmation prompt
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    wait: WaitIfAsked,
}

pub async fn run(client: &Client, screen: &mut Screen, command: ApprovalsCommand) -> Result<Exit, Failure> {
    match command {
        ApprovalsCommand::List { actor, limit } => list::list(client, screen, actor, limit).await,
        ApprovalsCommand::Show { job } => show::show(client, screen, job.resolve(client).await?).await,
        ApprovalsCommand::Approve(args) => decide::approve(client, screen, &args).await,
        ApprovalsCommand::Reject { job, node, reason } => {
            let job = job.resolve(client).await?;
            decide::reject(client, screen, job, node, &reason).await
        }
    }
}
