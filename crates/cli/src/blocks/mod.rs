//! `blocks …`: where commands may not run.

mod add;
mod lift;
mod list;

use clap::Subcommand;

use crate::client::Client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Screen;

#[derive(Debug, Clone, Subcommand)]
pub enum BlocksCommand {
    /// List the blocks, newest first
    List,
    /// Forbid commands on hosts
    ///
    /// A block counts for whatever is about to start; what runs is left alone.
    Add(add::AddArgs),
    /// Allow commands again
    Lift {
        /// The block's number, as `blocks list` shows it
        #[arg(value_name = "ID")]
        id: u64,
        /// Why; it is kept with the event
        #[arg(long)]
        reason: Option<String>,
    },
}

pub async fn run(client: &Client, screen: &mut Screen, command: BlocksCommand) -> Result<Exit, Failure> {
    match command {
        BlocksCommand::List => list::list(client, screen).await,
        BlocksCommand::Add(args) => add::add(client, screen, &args).await,
        BlocksCommand::Lift { id, reason } => lift::lift(client, screen, id, reason.as_deref()).await,
    }
}
