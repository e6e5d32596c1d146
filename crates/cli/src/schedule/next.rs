//! `schedule next`.

use bowline_model::schedule::Cron;
use clap::Args;
use serde::Deserialize;
use serde_json::json;

use crate::client::{Again, Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Cell, Column, Screen, Text};

#[derive(Debug, Clone, Args)]
pub struct NextArgs {
    /// The name of a schedule
    #[arg(required_unless_present = "cron", conflicts_with = "cron")]
    name: Option<String>,
    /// A pattern: minute hour day-of-month month day-of-week
    #[arg(long)]
    cron: Option<String>,
    /// The zone of the pattern, such as Europe/Berlin
    #[arg(long, requires = "cron", default_value = "UTC")]
    timezone: String,
    /// How many times
    #[arg(short = 'n', long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    count: u32,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct Upcoming {
    instants: Vec<InstantView>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct InstantView {
    at: Text,
    local: Text,
}

const COLUMNS: [Column; 3] = [Column::left("AT").whole(), Column::left("LOCAL").whole(), Column::left("THAT IS")];

pub async fn next(client: &Client, screen: &mut Screen, args: &NextArgs) -> Result<Exit, Failure> {
    let count = args.count;
    let request = match (&args.name, &args.cron) {
        (Some(name), _) => Request::get(["schedules", name]).query("next", count.to_string()),
        (None, cron) => {
            // Said here, so that the place in a body that nobody wrote is not part of the message.
            if let Some(Err(error)) = cron.as_ref().map(|text| text.parse::<Cron>()) {
                return Err(Failure::Usage(format!("--cron: {error}")));
            }
            let body = json!({"cron": cron, "timezone": args.timezone, "count": count}).to_string();
            Request::post(["schedules", "preview"]).body(body).again(Again::Safe)
        }
    };
    let answer = client.call(&request).await?;
    if screen.json() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    let upcoming: Upcoming = answer.read()?;
    if upcoming.instants.is_empty() {
        screen.line("It does not fire any more.")?;
        return Ok(Exit::Success);
    }
    let row = |instant: &InstantView| -> Vec<Cell> {
        vec![(&instant.at).into(), (&instant.local).into(), screen.ago(&instant.at).into()]
    };
    let rows: Vec<Vec<Cell>> = upcoming.instants.iter().map(row).collect();
    screen.table(&COLUMNS, &rows)?;
    Ok(Exit::Success)
}
