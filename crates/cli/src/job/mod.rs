//! `job …`: submitting, looking, stopping, trying again.

mod batch;
mod get;
mod hosts;
mod list;
mod logs;
mod order;
mod payload;
mod result;
mod submit;
mod view;
mod waiting;
mod watch;
mod why;

pub use list::{Which, executions};
pub use logs::{Shown, show_output};
pub use order::{retry, wait_for};
pub use submit::{Accepted, label, new_key};
pub use view::{JobDetail, fault};
pub use waiting::Waiting;
pub use watch::{Show, watch};
pub use why::WhyView;

use clap::{Args, Subcommand};

use crate::client::Client;
use crate::duration::Span;
use crate::events;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job_ref::{OneJob, SomeJobs};
use crate::output::Screen;
use crate::wait::{Limit, WaitIfAsked};

#[derive(Debug, Clone, Subcommand)]
pub enum JobCommand {
    /// Submit a job, or many
    Submit(Box<submit::SubmitArgs>),
    /// Show a job and its runs
    Get {
        #[command(flatten)]
        job: OneJob,
    },
    /// List jobs, newest first
    List(list::ListArgs),
    /// Stop jobs; one that runs is `canceling` until its executor confirms
    ///
    /// With --wait it ends with exit code 0 when all of them were canceled, and 1 when one ended in another way.
    Cancel(CancelArgs),
    /// Queue an ended job again; of a command, the hosts where it did not succeed
    Retry(RetryArgs),
    /// Follow a job until it ends
    ///
    /// A command on hosts is shown as `run` shows it. Ctrl-C only leaves: the job continues.
    ///
    /// Ends with exit code 0 if the job succeeded, 1 if it failed, is dead or in error, 3 if it was canceled. With
    /// --json every event is a line, and the job as it ended is the last one.
    Watch {
        #[command(flatten)]
        job: OneJob,
        /// Wait at most this long, such as 10m; the exit code is 124 then
        #[arg(long, value_name = "DURATION")]
        timeout: Option<Span>,
    },
    /// List the events of a job
    #[command(alias = "event")]
    Events {
        #[command(flatten)]
        job: OneJob,
        /// How many
        #[arg(long, value_name = "N", default_value_t = events::LIMIT, value_parser = clap::value_parser!(u64).range(1..))]
        limit: u64,
    },
    /// List the hosts of a command, failures first
    #[command(alias = "host")]
    Hosts(hosts::HostsArgs),
    /// Print what a command wrote on its hosts
    #[command(alias = "log")]
    Logs(logs::LogsArgs),
    /// Print the result of a job, however large it is
    #[command(alias = "results")]
    Result(result::ResultArgs),
    /// Say what a job is waiting for
    Why {
        #[command(flatten)]
        job: OneJob,
    },
}

#[derive(Debug, Clone, Args)]
pub struct CancelArgs {
    #[command(flatten)]
    jobs: SomeJobs,
    /// Why; it is kept with the job
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    wait: WaitIfAsked,
}

#[derive(Debug, Clone, Args)]
pub struct RetryArgs {
    #[command(flatten)]
    job: OneJob,
    /// Why; it is kept with the job
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    wait: WaitIfAsked,
}

pub async fn run(client: &Client, screen: &mut Screen, command: JobCommand) -> Result<Exit, Failure> {
    match command {
        JobCommand::Submit(args) => submit::submit(client, screen, &args).await,
        JobCommand::Get { job } => get::get(client, screen, job.resolve(client).await?).await,
        JobCommand::List(args) => list::list(client, screen, &args).await,
        JobCommand::Cancel(args) => order::cancel(client, screen, &args).await,
        JobCommand::Retry(args) => order::retry(client, screen, &args).await,
        JobCommand::Watch { job, timeout } => {
            let id = job.resolve(client).await?;
            let show = watch::Show::Everything;
            Limit::of(timeout).watch(screen, id, async |screen| Box::pin(watch(client, screen, id, show)).await).await
        }
        JobCommand::Events { job, limit } => {
            events::list_of_job(client, screen, job.resolve(client).await?, limit).await
        }
        JobCommand::Hosts(args) => hosts::hosts(client, screen, &args).await,
        JobCommand::Logs(args) => logs::logs(client, screen, &args).await,
        JobCommand::Result(args) => result::result(client, screen, &args).await,
        JobCommand::Why { job } => why::why(client, screen, job.resolve(client).await?).await,
    }
}
