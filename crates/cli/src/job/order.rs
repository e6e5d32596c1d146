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
use crate::wait::Wait;
use crate::workflow;

#[derive(Deserialize, Default)]
#[serde(default)]
struct OrderView {
    status: Text,
    changed: bool,
}

pub async fn cancel(client: &Client, screen: &mut Screen, args: &CancelArgs) -> Result<Exit, Failure> {
    let (jobs, wait, mut worst) = (args.jobs.refs(), args.wait.wait(), None);
    let several = jobs.len() > 1;
    let quiet = screen.json() && !wait.is_no();
    let mut canceled = Vec::new();
    for job in jobs {
        // Stopping what is stopped changes nothing, so a lost answer can be asked for again.
        let done = async {
            let id = job.resolve(client).await?;
            let answer = client.call(&request(id, args.reason.as_deref(), "cancel").again(Again::Safe)).await?;
            if !quiet {
                tell(screen, id, &answer)?;
            }
            Ok(id)
        };
        match done.await {
            Ok(id) => canceled.push(id),
            // One that cannot be stopped does not keep the others running.
            Err(failure) if several => {
                screen.notes().failure(&failure, screen.json());
                worst = worst.or(Some(failure.exit()));
            }
            Err(failure) => return Err(failure),
        }
    }
    if !wait.is_no() {
        let waiting = async |screen: &mut Screen| {
            let mut exit = Exit::Success;
            for id in &canceled {
                match Box::pin(watch(client, screen, *id, Show::OnlyTheEnd)).await? {
                    Exit::Canceled => {}
                    Exit::Interrupted => return Ok(Exit::Interrupted),
                    _ => exit = Exit::Refused,
                }
            }
            Ok(exit)
        };
        if let Some(id) = canceled.first() {
            let exit = wait.limit().watch(screen, *id, waiting).await?;
            return Ok(if exit == Exit::Success { worst.unwrap_or(exit) } else { exit });
        }
    }
    Ok(worst.unwrap_or(Exit::Success))
}

pub async fn retry(client: &Client, screen: &mut Screen, args: &RetryArgs) -> Result<Exit, Failure> {
    let id = args.job.resolve(client).await?;
    let wait = args.wait.wait();
    // How many hosts that will be is known before, not after: they are started again one by one. So is the step after which
    // a workflow continues.
    let before = if screen.json() && wait.is_no() { None } else { detail(client, id).await };
    let hosts = before.as_ref().filter(|_| !screen.json()).and_then(hosts_left);
    let steps = before.and_then(|before| before.workflow).map(|execution| execution.steps);
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
    wait_for(client, screen, id, steps, wait).await
}

/// Waits for the end of a job: of an execution of a workflow, with each step after `steps`.
pub async fn wait_for(
    client: &Client,
    screen: &mut Screen,
    id: JobId,
    steps: Option<u32>,
    wait: Wait,
) -> Result<Exit, Failure> {
    let watching = async |screen: &mut Screen| match steps {
        Some(steps) => Box::pin(workflow::follow(client, screen, id, steps)).await,
        None => Box::pin(watch(client, screen, id, Show::OnlyTheEnd)).await,
    };
    wait.limit().watch(screen, id, watching).await
}

/// The job as it stands; `None` if it cannot be seen.
async fn detail(client: &Client, id: JobId) -> Option<JobDetail> {
    client.call(&Request::get(["jobs", &id.to_string()])).await.ok()?.read().ok()
}

/// On how many hosts a command did not succeed; `None` if it is no command.
fn hosts_left(detail: &JobDetail) -> Option<u64> {
    let counts = &detail.command.as_ref()?.hosts;
    Some(counts.total.saturating_sub(counts.succeeded()))
}

fn request(id: JobId, reason: Option<&str>, verb: &str) -> Request {
    let body = match reason {
        Some(reason) => serde_json::json!({ "reason": reason }).to_string(),
        None => "{}".to_owned(),
    };
    Request::post(["jobs", &id.to_string(), verb]).body(body)
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
