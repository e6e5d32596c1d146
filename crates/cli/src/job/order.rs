//! `job cancel` and `job retry`: orders about one job.

use serde::Deserialize;

use super::OrderArgs;
use super::view::JobDetail;
use crate::client::{Again, Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::time::thousands;
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
    // How many hosts that will be is known before, not after: they are begun again one by one.
    let hosts = if screen.json() { None } else { hosts_left(client, args).await };
    // A job that was queued again may have ended again; asking twice could run it twice.
    let exit = send(client, screen, args, "retry", Again::Never).await?;
    if let Some(left) = hosts {
        screen.line(&format!(
            "{} tried again",
            if left == 1 { "1 host is".to_owned() } else { format!("{} hosts are", thousands(left)) }
        ))?;
    }
    Ok(exit)
}

/// On how many hosts a command did not succeed; `None` if it is no command, or cannot be seen.
async fn hosts_left(client: &Client, args: &OrderArgs) -> Option<u64> {
    let answer = client.call(&Request::get(["jobs", &args.id.to_string()])).await.ok()?;
    let counts = answer.read::<JobDetail>().ok()?.command?.hosts;
    Some(counts.total.saturating_sub(counts.succeeded()))
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
