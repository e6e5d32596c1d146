//! `trigger …`: what messages start. Written with `apply`, like everything that is configured.

mod list;
mod show;
mod view;

use clap::Subcommand;

use crate::client::Client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Screen;

#[derive(Debug, Clone, Subcommand)]
pub enum TriggerCommand {
    /// List the triggers: whether their queues are read, and the outcome
    ///
    /// The figures are those of the server that answers, since it started.
    List,
    /// Show a trigger and its state on the server that answers
    Show {
        /// The name of the trigger
        name: String,
    },
}

pub async fn run(client: &Client, screen: &mut Screen, command: TriggerCommand) -> Result<Exit, Failure> {
    match command {
        TriggerCommand::List => list::list(client, screen).await,
        TriggerCommand::Show { name } => show::show(client, screen, &name).await,
    }
}
