//! `schedule trigger NAME`.

use serde::Deserialize;
use serde_json::json;

use crate::client::{Again, Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job::new_key;
use crate::output::{Screen, Text};

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct Accepted {
    job_id: Text,
    status: Text,
}

pub async fn trigger(client: &Client, screen: &mut Screen, name: &str, reason: Option<&str>) -> Result<Exit, Failure> {
    let body = json!({ "reason": reason }).to_string();
    // With a key of its own it is safe to ask again.
    let request = Request::post(["schedules", name, "trigger"]).body(body).idempotency_key(Some(new_key()));
    let answer = client.call(&request.again(Again::Patient)).await?;
    if screen.json() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    let accepted: Accepted = answer.read()?;
    screen.line(&format!("{} {}", accepted.job_id, accepted.status))?;
    Ok(Exit::Success)
}
