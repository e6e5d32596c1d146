//! `hosts list [--selector EXPR]`.

use clap::Args;

use super::Where;
use super::view::HostView;
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::output::{Cell, Column, Screen};
use crate::whoami::joined;
use crate::workers::labels;

#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    /// Only these, such as 'role=web & site!=fra | db[1:20]'
    #[arg(long, alias = "on", value_name = "EXPR")]
    selector: Option<String>,
    #[command(flatten)]
    place: Where,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
}

const COLUMNS: [Column; 5] = [
    Column::left("HOST").whole(),
    Column::left("REACHED BY"),
    Column::left("GROUPS"),
    Column::left("LABELS"),
    Column::left("CHANGED").spare(),
];

fn row(screen: &Screen, host: &HostView) -> Vec<Cell> {
    vec![
        (&host.name).into(),
        host.connection.words().into(),
        joined(&host.groups).into(),
        labels(host.labels.as_ref()).into(),
        screen.ago(&host.updated_at).into(),
    ]
}

pub async fn list(client: &Client, screen: &mut Screen, args: &ListArgs) -> Result<Exit, Failure> {
    let request =
        Request::get(["hosts"]).query("inventory", &args.place.inventory).query_if("selector", args.selector.clone());
    let mut listing = Listing::new(screen, "hosts", Some(args.limit), &COLUMNS, row);
    listing.read(client, request).await?;
    listing.finish(match args.selector {
        Some(_) => "No host is meant by this. `bowline hosts list` shows all of them.",
        None => "No hosts. Bring some with `bowline hosts import FILE`, or one with `bowline hosts add NAME`.",
    })?;
    Ok(Exit::Success)
}
