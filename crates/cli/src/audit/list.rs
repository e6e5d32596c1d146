//! `audit list`.

use serde::Deserialize;

use super::ListArgs;
use crate::client::Client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::output::{Cell, Column, Screen, Text};

#[derive(Deserialize, Default)]
#[serde(default)]
struct RecordView {
    number: Text,
    at: Text,
    actor: Text,
    actor_name: Text,
    action: Text,
    resource: Text,
    result: Text,
    reason: Text,
}

const COLUMNS: [Column; 7] = [
    Column::right("NUMBER"),
    Column::left("WHEN"),
    Column::left("ACTOR"),
    Column::left("ACTION"),
    Column::left("RESOURCE").whole(),
    Column::left("RESULT"),
    Column::left("REASON").spare(),
];

fn row(screen: &Screen, record: &RecordView) -> Vec<Cell> {
    vec![
        (&record.number).into(),
        screen.ago(&record.at).into(),
        record.actor_name.or(record.actor.as_str()).into(),
        (&record.action).into(),
        (&record.resource).into(),
        (&record.result).into(),
        (&record.reason).into(),
    ]
}

pub async fn list(client: &Client, screen: &mut Screen, args: &ListArgs) -> Result<Exit, Failure> {
    let request = args
        .chain
        .request()
        .query_if("actor", args.actor.clone())
        .query_if("action", args.action.clone())
        .query_if("resource", args.resource.clone())
        .query_if("since", args.since.map(|at| at.to_string()))
        .query_if("until", args.until.map(|at| at.to_string()));
    let mut listing = Listing::new(screen, "records", Some(args.limit), &COLUMNS, row);
    listing.read(client, request).await?;
    listing.finish("No such records.")?;
    Ok(Exit::Success)
}
