//! `job …`: submitting, looking, stopping, trying again.

mod batch;
mod get;
mod hosts;
mod list;
mod logs;
mod order;
mod payload;
mod submit;
mod view;
mod watch;
mod why;

pub use order::retry;
pub use submit::{Accepted, label, new_key};
pub use view::{JobDetail, fault};
pub use why::WhyView;

use bowline_model::JobId;
use clap::{Args, Subcommand};

use crate::client::Client;
use crate::events;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Screen;

#[derive(Debug, Clone, Subcommand)]
pub enum JobCommand {
    /// Submit a job, or many
    Submit(Box<submit::SubmitArgs>),
    /// Show a job and its runs
    Get {
        /// The job's id
        id: JobId,
    },
    /// List jobs, newest first
    List(list::ListArgs),
    /// Stop a job; one that runs is `canceling` until its executor confirms
    Cancel(OrderArgs),
    /// Queue a job that has ended once more; of a command, the hosts where it did not succeed
    Retry(OrderArgs),
    /// Follow a job until it ends
    ///
    /// A command on hosts is shown as `run` shows it, and the first Ctrl-C asks the server to cancel it.
    ///
    /// Ends with exit code 0 if the job succeeded, 1 if it failed, is dead or in error, 3 if it was canceled. With
    /// --json every event is a line, and the job as it ended is the last one.
    Watch {
        /// The job's id
        id: JobId,
    },
    /// List the events of a job
    Events {
        /// The job's id
        id: JobId,
        /// How many
        #[arg(long, value_name = "N", default_value_t = events::LIMIT, value_parser = clap::value_parser!(u64).range(1..))]
        limit: u64,
    },
    /// List the hosts of a command, those that went wrong first
    Hosts(hosts::HostsArgs),
    /// Print what a command wrote on its hosts
    Logs(logs::LogsArgs),
    /// Say what a job is waiting for
    Why {
        /// The job's id
        id: JobId,
    },
}

#[derive(Debug, Clone, Args)]
pub struct OrderArgs {
    /// The job's id
    id: JobId,
    /// Why; it is kept with the job
    #[arg(long)]
    reason: Option<String>,
}

pub async fn run(client: &Client, screen: &mut Screen, command: JobCommand) -> Result<Exit, Failure> {
    match command {
        JobCommand::Submit(args) => submit::submit(client, screen, &args).await,
        JobCommand::Get { id } => get::get(client, screen, id).await,
        JobCommand::List(args) => list::list(client, screen, &args).await,
        JobCommand::Cancel(args) => order::cancel(client, screen, &args).await,
        JobCommand::Retry(args) => order::retry(client, screen, &args).await,
        JobCommand::Watch { id } => Box::pin(watch::watch(client, screen, id, watch::Show::Everything)).await,
        JobCommand::Events { id, limit } => events::list_of_job(client, screen, id, limit).await,
        JobCommand::Hosts(args) => hosts::hosts(client, screen, &args).await,
        JobCommand::Logs(args) => logs::logs(client, screen, &args).await,
        JobCommand::Why { id } => why::why(client, screen, id).await,
    }
}
