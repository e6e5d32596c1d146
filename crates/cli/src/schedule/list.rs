//! `schedule list`.

use serde::Deserialize;

use crate::actor::ActorView;
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::output::{Cell, Column, Paint, Screen, Text};

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct ScheduleView {
    name: Text,
    active: bool,
    enabled: bool,
    cron: Text,
    every_ms: Text,
    timezone: Text,
    next_at: Text,
    last_fired_at: Text,
    last_job_id: Text,
    last_error: Option<ErrorView>,
    owner: ActorView,
    stopped: Text,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct ErrorView {
    at: Text,
    message: Text,
}

const COLUMNS: [Column; 8] = [
    Column::left("NAME").whole(),
    Column::left("WHEN"),
    Column::left("ZONE"),
    Column::left("NEXT"),
    Column::left("LAST"),
    Column::left("LAST JOB").spare(),
    Column::left("OWNER").spare(),
    Column::left("LAST ERROR").spare(),
];

fn row(screen: &Screen, schedule: &ScheduleView) -> Vec<Cell> {
    let next = match (schedule.active, schedule.enabled, schedule.next_at.is_empty()) {
        (false, _, _) => Cell::painted("none is active", Paint::Bad),
        (_, false, _) => Cell::painted("disabled", Paint::Quiet),
        _ if !schedule.stopped.is_empty() => Cell::painted("stopped", Paint::Bad),
        (_, _, true) => Cell::painted("never again", Paint::Quiet),
        (_, _, false) => screen.ago(&schedule.next_at).into(),
    };
    let error = match &schedule.last_error {
        _ if !schedule.stopped.is_empty() => schedule.stopped.to_string(),
        Some(error) => format!("{}: {}", screen.ago(&error.at), error.message),
        None => String::new(),
    };
    let when = match schedule.every_ms.as_str() {
        "" => schedule.cron.to_string(),
        ms => format!("every {ms} ms"),
    };
    vec![
        (&schedule.name).into(),
        Cell::new(when),
        (&schedule.timezone).into(),
        next,
        screen.ago(&schedule.last_fired_at).into(),
        (&schedule.last_job_id).into(),
        (&schedule.owner.name).into(),
        if error.is_empty() { Cell::new(error) } else { Cell::painted(error, Paint::Bad) },
    ]
}

pub async fn list(client: &Client, screen: &mut Screen) -> Result<Exit, Failure> {
    let mut listing = Listing::new(screen, "schedules", None, &COLUMNS, row);
    listing.read(client, Request::get(["schedules"])).await?;
    listing.finish("There are no schedules.")?;
    Ok(Exit::Success)
}
