//! `schedule …`: what is started again and again. Written with `apply`, like everything that is configured.

mod list;
mod next;
mod trigger;

use clap::Subcommand;

use crate::client::Client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Screen;
use crate::wait::WaitIfAsked;

#[derive(Debug, Clone, Subcommand)]
pub enum ScheduleCommand {
    /// List the schedules: when each fires next, and the outcome of the last time
    List,
    /// Show when a schedule fires next, or when a pattern would
    Next(next::NextArgs),
    /// Start a schedule's job now
    ///
    /// The schedule itself continues unchanged.
    Trigger {
        /// The name of the schedule
        name: String,
        /// Why; it is kept in the audit trail
        #[arg(long)]
        reason: Option<String>,
        #[command(flatten)]
        wait: WaitIfAsked,
    },
}

pub async fn run(client: &Client, screen: &mut Screen, command: ScheduleCommand) -> Result<Exit, Failure> {
    match command {
        ScheduleCommand::List => list::list(client, screen).await,
        ScheduleCommand::Next(args) => next::next(client, screen, &args).await,
        ScheduleCommand::Trigger { name, reason, wait } => {
            trigger::trigger(client, screen, &name, reason.as_deref(), wait.wait()).await
        }
    }
}
