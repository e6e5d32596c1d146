//! `job cancel` and `job retry`: orders about one job.

use serde::Deserialize;

use super::OrderArgs;
use crate::client::{Again, Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Paint, Screen, Text};

#[derive(Deserialize, Default)]
#[serde(default)]
struct OrderView {
    status: Text,
    changed: bool,
}

pub async fn cancel(client: &Client, screen: &mut Screen, args: &OrderArgs) -> Result<Exit, Failure> {
    // Stopping what is stopped changes nothing, so a lost answer can be asked for again.
    send(client, screen, args, "cancel", Again::Safe).await
}

pub async fn retry(client: &Client, screen: &mut Screen, args: &OrderArgs) -> Result<Exit, Failure> {
    // A job that was queued again may have ended again; asking twice could run it twice.
    send(client, screen, args, "retry", Again::Never).await
}

async fn send(
    client: &Client,
    screen: &mut Screen,
    args: &OrderArgs,
    verb: &str,
    again: Again,
) -> Result<Exit, Failure> {
    let id = args.id.to_string();
    let body = match &args.reason {
        Some(reason) => serde_json::json!({ "reason": reason }).to_string(),
        None => "{}".to_owned(),
    };
    let answer = client.call(&Request::post(["jobs", &id, verb]).body(body).again(again)).await?;
    if screen.json() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    let view: OrderView = answer.read()?;
    let status = Paint::of_status(view.status.as_str()).on(view.status.as_str(), screen.color());
    let already = if view.changed { "" } else { "already " };
    screen.line(&format!("job {id} is {already}{status}"))?;
    if view.changed && view.status.as_str() != "canceled" {
        screen.note(&format!("follow it with `bowline job watch {id}`"));
    }
    Ok(Exit::Success)
}
