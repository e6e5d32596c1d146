//! `job list`.

use bowline_model::Lane;
use clap::Args;

use super::view::JobView;
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::output::{Cell, Column, Screen};

#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    /// Only these: pending, queued, running, paused, awaiting_approval, blocked, canceling, success, failed, dead, canceled, error
    #[arg(long)]
    status: Option<String>,
    /// Only this lane: webhook, critical, default, low
    #[arg(long)]
    lane: Option<Lane>,
    /// Only jobs of this type
    #[arg(long = "type", value_name = "TYPE")]
    task_type: Option<String>,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
}

const COLUMNS: [Column; 7] = [
    Column::left("ID").whole(),
    Column::left("WHAT"),
    Column::left("LANE").spare(),
    Column::left("STATUS"),
    Column::right("TRIES"),
    Column::left("CREATED"),
    Column::right("NUMBER").spare(),
];

fn row(screen: &Screen, job: &JobView) -> Vec<Cell> {
    vec![
        (&job.id).into(),
        job.what().into(),
        (&job.lane).into(),
        Cell::status(&job.status),
        job.tries().into(),
        screen.ago(&job.created_at).into(),
        (&job.number).into(),
    ]
}

pub async fn list(client: &Client, screen: &mut Screen, args: &ListArgs) -> Result<Exit, Failure> {
    let filtered = args.status.is_some() || args.lane.is_some() || args.task_type.is_some();
    let request = Request::get(["jobs"])
        .query_if("status", args.status.clone())
        .query_if("lane", args.lane.map(Lane::as_str))
        .query_if("type", args.task_type.clone());
    let mut listing = Listing::new(screen, "jobs", Some(args.limit), &COLUMNS, row);
    listing.read(client, request).await?;
    listing.finish(if filtered {
        "No such jobs. `bowline job list` without filters shows all of them."
    } else {
        "No jobs yet. Submit one with `bowline job submit echo --payload '{\"hello\":\"world\"}'`."
    })?;
    Ok(Exit::Success)
}
