//! `audit`: what was done with authority, and whether the trail of it is whole.

mod export;
mod heads;
mod list;
mod verify;
mod walk;

use bowline_model::Timestamp;
use bowline_model::audit::Chain;
use clap::{Args, Subcommand};

use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Screen;

pub use heads::{BadHeads, read_heads};
pub use verify::VerifyArgs;

#[derive(Debug, Clone, Subcommand)]
pub enum AuditCommand {
    /// Show records, newest first
    List(ListArgs),
    /// Export a whole chain, oldest first, one record a line
    Export {
        #[command(flatten)]
        chain: ChainArgs,
    },
    /// Verify a chain from its start, and name the first record that was changed
    Verify(VerifyArgs),
}

/// Which chain.
#[derive(Debug, Clone, Args)]
pub struct ChainArgs {
    /// Another tenant's chain, by its id, or `system`; for administrators [default: the own tenant's]
    #[arg(long, value_name = "CHAIN")]
    chain: Option<Chain>,
}

impl ChainArgs {
    fn request(&self) -> Request {
        Request::get(["audit"]).query_if("chain", self.chain.map(|chain| chain.to_string()))
    }
}

#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    #[command(flatten)]
    chain: ChainArgs,
    /// Only what this actor did, such as token:0123456789abcdef
    #[arg(long)]
    actor: Option<String>,
    /// Only this, such as token.revoke
    #[arg(long)]
    action: Option<String>,
    /// Only what was done to this, such as job/ID; `job` is every job
    #[arg(long)]
    resource: Option<String>,
    /// Only from this moment on
    #[arg(long, value_name = "RFC3339")]
    since: Option<Timestamp>,
    /// Only before this moment
    #[arg(long, value_name = "RFC3339")]
    until: Option<Timestamp>,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
}

pub async fn run(client: &Client, screen: &mut Screen, command: AuditCommand) -> Result<Exit, Failure> {
    match command {
        AuditCommand::List(args) => list::list(client, screen, &args).await,
        AuditCommand::Export { chain } => export::export(client, screen, &chain).await,
        AuditCommand::Verify(args) => verify::verify(client, screen, &args).await,
    }
}
