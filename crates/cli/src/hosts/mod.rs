//! `hosts …`: where commands run, and which ones a selector means.

mod add;
mod export;
mod get;
mod import;
mod inventories;
mod list;
mod queue;
mod release;
mod remove;
mod select;
mod view;

use clap::{Args, Subcommand};

use crate::client::Client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Screen;

pub use import::{Counts, counts};
pub use inventories::{list as inventories, one as inventory};

#[derive(Debug, Clone, Subcommand)]
pub enum HostsCommand {
    /// List hosts by name: all, or those a selector matches
    List(list::ListArgs),
    /// Show a host, with what it inherits from its groups
    Get(get::GetArgs),
    /// Add a host, or replace it
    Add(Box<add::AddArgs>),
    /// Remove hosts from an inventory
    Remove(remove::RemoveArgs),
    /// Import hosts from a file: yaml, json, csv, or one of Ansible's formats
    Import(import::ImportArgs),
    /// Print an inventory in a format that can be imported
    Export(export::ExportArgs),
    /// Show how many hosts a selector matches, and the first ones
    Select(select::SelectArgs),
    /// Show what runs on a host, and what waits for it
    Queue(queue::QueueArgs),
    /// Release a host that is reserved for a lost run
    Release(release::ReleaseArgs),
    /// List the inventories
    #[command(alias = "inventory")]
    Inventories,
}

/// Which inventory.
#[derive(Debug, Clone, Args)]
pub struct Where {
    /// The inventory
    #[arg(long, value_name = "NAME", default_value = "main")]
    inventory: String,
}

pub async fn run(client: &Client, screen: &mut Screen, command: HostsCommand) -> Result<Exit, Failure> {
    match command {
        HostsCommand::List(args) => list::list(client, screen, &args).await,
        HostsCommand::Get(args) => get::get(client, screen, &args).await,
        HostsCommand::Add(args) => add::add(client, screen, &args).await,
        HostsCommand::Remove(args) => remove::remove(client, screen, &args).await,
        HostsCommand::Import(args) => import::import(client, screen, &args).await,
        HostsCommand::Export(args) => export::export(client, screen, &args).await,
        HostsCommand::Select(args) => select::select(client, screen, &args).await,
        HostsCommand::Queue(args) => queue::queue(client, screen, &args).await,
        HostsCommand::Release(args) => release::release(client, screen, &args).await,
        HostsCommand::Inventories => inventories::list(client, screen).await,
    }
}
