//! `evidence list`: what agents executed, of jobs that the ledger does not have.

use clap::Subcommand;
use serde::Deserialize;

use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::output::{Cell, Column, Screen, Text};

#[derive(Debug, Clone, Subcommand)]
pub enum EvidenceCommand {
    /// List runs that agents executed and the ledger does not know, after it was restored from an older copy
    List,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct UnknownRunView {
    job_id: Text,
    run_id: Text,
    host: Text,
    agent: Text,
    status: Text,
    ended_at: Text,
}

const COLUMNS: [Column; 6] = [
    Column::left("JOB").whole(),
    Column::left("RUN").whole(),
    Column::left("HOST"),
    Column::left("AGENT"),
    Column::left("STATUS"),
    Column::left("ENDED"),
];

fn row(screen: &Screen, run: &UnknownRunView) -> Vec<Cell> {
    vec![
        (&run.job_id).into(),
        (&run.run_id).into(),
        (&run.host).into(),
        (&run.agent).into(),
        (&run.status).into(),
        screen.ago(&run.ended_at).into(),
    ]
}

pub async fn run(client: &Client, screen: &mut Screen, command: EvidenceCommand) -> Result<Exit, Failure> {
    let EvidenceCommand::List = command;
    let mut listing = Listing::new(screen, "runs", None, &COLUMNS, row);
    listing.read(client, Request::get(["evidence", "unknown-runs"])).await?;
    listing.finish("Agents have executed nothing that the ledger does not know.")?;
    Ok(Exit::Success)
}
