//! `dlq list|replay|purge`: jobs that ended hopeless, and what to do with them.

mod close;
mod list;

use bowline_model::Lane;
use clap::{Args, Subcommand};

use crate::client::Client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Screen;

#[derive(Debug, Clone, Subcommand)]
pub enum DlqCommand {
    /// List dead letters, of one lane or of all
    List(ListArgs),
    /// Submit dead letters again as new jobs
    Replay(close::CloseArgs),
    /// Remove dead letters for good
    Purge(PurgeArgs),
}

#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    /// webhook, critical, default or low [default: all of them]
    lane: Option<Lane>,
    /// Only these: open, replayed, retried, purged, corrected
    #[arg(long)]
    status: Option<String>,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
}

#[derive(Debug, Clone, Args)]
pub struct PurgeArgs {
    #[command(flatten)]
    close: close::CloseArgs,
    /// Skip the confirmation prompt
    #[arg(long, short)]
    yes: bool,
}

pub async fn run(client: &Client, screen: &mut Screen, command: DlqCommand) -> Result<Exit, Failure> {
    match command {
        DlqCommand::List(args) => list::list(client, screen, &args).await,
        DlqCommand::Replay(args) => close::close(client, screen, &args, close::Verb::Replay).await,
        DlqCommand::Purge(args) => {
            if !args.yes && !screen.confirm(&args.close.question())? {
                return Err(Failure::Declined);
            }
            close::close(client, screen, &args.close, close::Verb::Purge).await
        }
    }
}
