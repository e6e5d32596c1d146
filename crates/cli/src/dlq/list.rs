//! `dlq list [LANE]`.

use bowline_model::Lane;
use serde::Deserialize;

use super::ListArgs;
use crate::actor::ActorView;
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::output::{Cell, Column, Paint, Screen, Text};

#[derive(Deserialize, Default)]
#[serde(default)]
struct DeadLetterView {
    job_id: Text,
    #[serde(rename = "type")]
    task_type: Text,
    lane: Text,
    at: Text,
    status: Text,
    attempts: Text,
    class: Text,
    error: Text,
    reason: Text,
    closed_by: Text,
    closer: ActorView,
}

const COLUMNS: [Column; 9] = [
    Column::left("JOB").whole(),
    Column::left("TYPE"),
    Column::left("LANE").spare(),
    Column::left("STATUS"),
    Column::right("TRIES"),
    Column::left("SINCE"),
    Column::left("ERROR"),
    Column::left("CLOSED BY").spare(),
    Column::left("REASON").spare(),
];

fn row(screen: &Screen, entry: &DeadLetterView) -> Vec<Cell> {
    let error = match (entry.class.as_str(), entry.error.as_str()) {
        ("", error) => error.to_owned(),
        (class, "") => class.to_owned(),
        (class, error) => format!("{class}: {error}"),
    };
    vec![
        (&entry.job_id).into(),
        (&entry.task_type).into(),
        (&entry.lane).into(),
        Cell::status(&entry.status),
        (&entry.attempts).into(),
        screen.ago(&entry.at).into(),
        Cell::painted(error, Paint::Quiet),
        entry.closer.or(&entry.closed_by).into(),
        (&entry.reason).into(),
    ]
}

pub async fn list(client: &Client, screen: &mut Screen, args: &ListArgs) -> Result<Exit, Failure> {
    let lanes = args.lane.map_or(Lane::ALL.to_vec(), |lane| vec![lane]);
    let mut listing = Listing::new(screen, "entries", Some(args.limit), &COLUMNS, row);
    for lane in lanes {
        let request = Request::get(["dlq", lane.as_str()]).query_if("status", args.status.clone());
        listing.read(client, request).await?;
    }
    listing.finish("No dead letters here. `bowline lanes` shows where there are some.")?;
    Ok(Exit::Success)
}
