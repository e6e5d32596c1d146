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
    List {
        /// Only blocks of this actor: the name of a token, or as `whoami` says
        #[arg(long)]
        actor: Option<String>,
    },
    /// Forbid commands on hosts
    ///
    /// A block applies to commands that are about to start; running ones are not stopped.
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
        BlocksCommand::List { actor } => list::list(client, screen, actor).await,
        BlocksCommand::Add(args) => add::add(client, screen, &args).await,
        BlocksCommand::Lift { id, reason } => lift::lift(client, screen, id, reason.as_deref()).await,
    }
}
