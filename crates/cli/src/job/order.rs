//! `job cancel` and `job retry`: actions on jobs.

use bowline_model::JobId;
use serde::Deserialize;

use super::submit::new_key;
use super::view::JobDetail;
use super::watch::{Show, watch};
use super::{CancelArgs, RetryArgs};
use crate::client::{Again, Answer, Client, Request};
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

pub async fn cancel(client: &Client, screen: &mut Screen, args: &CancelArgs) -> Result<Exit, Failure> {
    let (jobs, mut worst) = (args.jobs.refs(), None);
    let several = jobs.len() > 1;
    for job in jobs {
        // Stopping what is stopped changes nothing, so a lost answer can be asked for again.
        let done = async {
            let id = job.resolve(client).await?;
            send(client, screen, id, args.reason.as_deref(), "cancel", Again::Safe).await
        };
        match done.await {
            Ok(()) => {}
            // One that cannot be stopped does not keep the others running.
            Err(failure) if several => {
                screen.notes().failure(&failure, screen.json());
                worst = worst.or(Some(failure.exit()));
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(worst.unwrap_or(Exit::Success))
}

pub async fn retry(client: &Client, screen: &mut Screen, args: &RetryArgs) -> Result<Exit, Failure> {
    let id = args.job.resolve(client).await?;
    let wait = args.wait.wait();
    // How many hosts that will be is known before, not after: they are started again one by one.
    let hosts = if screen.json() { None } else { hosts_left(client, id).await };
    let quiet = screen.json() && !wait.is_no();
    // A job that was queued again may have ended again; the key makes sure that asking twice runs it once.
    let request = request(id, args.reason.as_deref(), "retry").idempotency_key(Some(new_key())).again(Again::Safe);
    let answer = client.call(&request).await?;
    if !quiet {
        tell(screen, id, &answer)?;
    }
    if let Some(left) = hosts {
        screen.line(&format!(
            "{} tried again",
            if left == 1 { "1 host is".to_owned() } else { format!("{} hosts are", thousands(left)) }
        ))?;
    }
    if wait.is_no() {
        return Ok(Exit::Success);
    }
    let watching = async |screen: &mut Screen| Box::pin(watch(client, screen, id, Show::OnlyTheEnd)).await;
    wait.limit().watch(screen, id, watching).await
}

/// On how many hosts a command did not succeed; `None` if it is no command, or cannot be seen.
async fn hosts_left(client: &Client, id: JobId) -> Option<u64> {
    let answer = client.call(&Request::get(["jobs", &id.to_string()])).await.ok()?;
    let counts = answer.read::<JobDetail>().ok()?.command?.hosts;
    Some(counts.total.saturating_sub(counts.succeeded()))
}

fn request(id: JobId, reason: Option<&str>, verb: &str) -> Request {
    let body = match reason {
        Some(reason) => serde_json::json!({ "reason": reason }).to_string(),
        None => "{}".to_owned(),
    };
    Request::post(["jobs", &id.to_string(), verb]).body(body)
}

async fn send(
    client: &Client,
    screen: &mut Screen,
    id: JobId,
    reason: Option<&str>,
    verb: &str,
    again: Again,
) -> Result<(), Failure> {
    let answer = client.call(&request(id, reason, verb).again(again)).await?;
    tell(screen, id, &answer)
}

fn tell(screen: &mut Screen, id: JobId, answer: &Answer) -> Result<(), Failure> {
    if screen.json() {
        return screen.json_line(answer.text());
    }
    let view: OrderView = answer.read()?;
    let status = Paint::of_status(view.status.as_str()).on(view.status.as_str(), screen.color());
    let already = if view.changed { "" } else { "already " };
    screen.line(&format!("job {id} is {already}{status}"))?;
    if view.changed && view.status.as_str() != "canceled" {
        screen.note(&format!("follow it with `bowline job watch {id}`"));
    }
    Ok(())
}
