//! `hosts queue HOST`: who is at a host, and who waits for it.

use clap::Args;
use serde::Deserialize;

use super::Where;
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::output::{Cell, Column, Paint, Screen, Text};

#[derive(Debug, Clone, Args)]
pub struct QueueArgs {
    /// The host's name
    host: String,
    #[command(flatten)]
    place: Where,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TurnView {
    job_id: Text,
    job_number: Text,
    command: Text,
    lock: Text,
    held: bool,
    status: Text,
    since: Text,
}

const COLUMNS: [Column; 7] = [
    Column::left("JOB").whole(),
    Column::left("COMMAND"),
    Column::left("TURN"),
    Column::left("LOCK"),
    Column::left("STATUS"),
    Column::left("SINCE"),
    Column::right("NUMBER").spare(),
];

fn row(screen: &Screen, turn: &TurnView) -> Vec<Cell> {
    let held = if turn.held { Cell::painted("at the host", Paint::Busy) } else { Cell::painted("waits", Paint::Quiet) };
    vec![
        (&turn.job_id).into(),
        (&turn.command).into(),
        held,
        (&turn.lock).into(),
        Cell::status(&turn.status),
        screen.ago(&turn.since).into(),
        (&turn.job_number).into(),
    ]
}

pub async fn queue(client: &Client, screen: &mut Screen, args: &QueueArgs) -> Result<Exit, Failure> {
    let request = Request::get(["hosts", &args.host, "queue"]).query("inventory", args.place.inventory.as_str());
    let mut listing = Listing::new(screen, "queue", None, &COLUMNS, row);
    listing.read(client, request).await?;
    listing.finish("Nobody is at this host, and nobody waits for it.")?;
    Ok(Exit::Success)
}
