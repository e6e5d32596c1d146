//! `lanes`: the queues and what waits in them.

use serde::Deserialize;

use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::output::time::thousands;
use crate::output::{Cell, Column, Paint, Screen, Text};

#[derive(Deserialize, Default)]
#[serde(default)]
struct LaneView {
    lane: Text,
    weight: Text,
    queued: u64,
    scheduled: u64,
    running: u64,
    dead: u64,
}

const COLUMNS: [Column; 6] = [
    Column::left("LANE"),
    Column::right("WEIGHT"),
    Column::right("QUEUED"),
    Column::right("SCHEDULED"),
    Column::right("RUNNING"),
    Column::right("DEAD"),
];

fn row(_: &Screen, lane: &LaneView) -> Vec<Cell> {
    let count = |number: u64, paint| Cell::painted(thousands(number), if number == 0 { Paint::Quiet } else { paint });
    vec![
        (&lane.lane).into(),
        (&lane.weight).into(),
        count(lane.queued, Paint::Plain),
        count(lane.scheduled, Paint::Plain),
        count(lane.running, Paint::Busy),
        count(lane.dead, Paint::Bad),
    ]
}

pub async fn run(client: &Client, screen: &mut Screen) -> Result<Exit, Failure> {
    let mut listing = Listing::new(screen, "lanes", None, &COLUMNS, row);
    listing.read(client, Request::get(["lanes"])).await?;
    listing.finish("The server named no lanes.")?;
    Ok(Exit::Success)
}
