//! Events that have happened, as a list.

use bowline_model::JobId;

use super::{EventView, EventsArgs};
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::output::Screen;

/// How many are shown unless it is said otherwise.
pub const LIMIT: u64 = 50;

pub async fn list(client: &Client, screen: &mut Screen, args: &EventsArgs) -> Result<Exit, Failure> {
    let limit = args.limit.unwrap_or(LIMIT);
    // Since a moment they are read as they happened; otherwise the newest ones are what people look for.
    let request = args
        .filtered(Request::get(["events"]))
        .query_if("since", args.since.map(|at| at.to_string()))
        .query_if("order", args.since.is_none().then(|| "newest".to_owned()));
    let mut listing = Listing::new(screen, "events", Some(limit), &EventView::COLUMNS, EventView::row);
    listing.read(client, request).await?;
    listing.finish("No such events. `bowline events --follow` shows them as they happen.")?;
    Ok(Exit::Success)
}

/// `job events ID`.
pub async fn list_of_job(client: &Client, screen: &mut Screen, job: JobId, limit: u64) -> Result<Exit, Failure> {
    let id = job.to_string();
    let mut listing = Listing::new(screen, "events", Some(limit), &EventView::COLUMNS_OF_JOB, EventView::row_of_job);
    listing.read(client, Request::get(["jobs", &id, "events"])).await?;
    listing.finish("No events are kept of this job any more.")?;
    Ok(Exit::Success)
}
