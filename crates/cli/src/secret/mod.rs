//! `secret`: where secrets are kept, and whether they can be had. No command shows a value, because no server does.

mod check;
mod list;

use clap::{Args, Subcommand};

use crate::client::Client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Screen;

#[derive(Debug, Clone, Subcommand)]
pub enum SecretCommand {
    /// List the secret_refs: where each secret is kept, and for whom
    List,
    /// Check that the server can read secrets now; all of them unless named
    Check(CheckArgs),
}

#[derive(Debug, Clone, Args)]
pub struct CheckArgs {
    /// The names of secret_refs
    pub names: Vec<String>,
}

pub async fn run(client: &Client, screen: &mut Screen, command: SecretCommand) -> Result<Exit, Failure> {
    match command {
        SecretCommand::List => list::list(client, screen).await,
        SecretCommand::Check(args) => check::check(client, screen, args).await,
    }
}
