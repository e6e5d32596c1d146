//! `events --follow`: events as they happen.

use super::{EventView, EventsArgs};
use crate::client::{Client, Follower, News, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Screen;

pub async fn follow(client: &Client, screen: &mut Screen, args: &EventsArgs) -> Result<Exit, Failure> {
    let request = args.filtered(Request::get(["events", "stream"]));
    let mut follower = Follower::new(client, request, args.since.map(|at| at.to_string()));
    let mut left = args.limit;
    while left != Some(0) {
        match follower.next().await? {
            News::Event(json) if screen.json() => screen.json_line(&json)?,
            News::Event(json) => {
                let event: EventView =
                    serde_json::from_str(&json).map_err(|error| client.strange(error.to_string()))?;
                let line = event.line(screen, args.job.is_none());
                screen.line(&line)?;
            }
            News::Connected => continue,
            News::Reset => {
                screen
                    .note("reset: the server no longer has all events since the last one shown; some are missing here");
                continue;
            }
        }
        left = left.map(|left| left - 1);
    }
    Ok(Exit::Success)
}
