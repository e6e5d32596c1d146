//! `schedule trigger NAME`.

use serde::Deserialize;
use serde_json::json;

use crate::client::{Again, Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job::{Show, new_key, watch};
use crate::output::{Screen, Text};
use crate::wait::Wait;

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct Accepted {
    job_id: Text,
    status: Text,
}

pub async fn trigger(
    client: &Client,
    screen: &mut Screen,
    name: &str,
    reason: Option<&str>,
    wait: Wait,
) -> Result<Exit, Failure> {
    let body = json!({ "reason": reason }).to_string();
    // With a key of its own it is safe to ask again.
    let request = Request::post(["schedules", name, "trigger"]).body(body).idempotency_key(Some(new_key()));
    let answer = client.call(&request.again(Again::Patient)).await?;
    if screen.json() && wait.is_no() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    let accepted: Accepted = answer.read()?;
    if !screen.json() {
        screen.line(&format!("job {} {}", accepted.job_id, accepted.status))?;
    }
    if wait.is_no() {
        screen.note(&format!("follow it with `bowline job watch {}`", accepted.job_id));
        return Ok(Exit::Success);
    }
    let id = accepted.job_id.as_str().parse().map_err(|_| client.strange("it has no job id".to_owned()))?;
    let watching = async |screen: &mut Screen| Box::pin(watch(client, screen, id, Show::OnlyTheEnd)).await;
    wait.limit().watch(screen, id, watching).await
}
