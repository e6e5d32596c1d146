//! `trigger show NAME`.

use super::view::TriggerView;
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Facts, Paint, Screen};

pub async fn show(client: &Client, screen: &mut Screen, name: &str) -> Result<Exit, Failure> {
    let answer = client.call(&Request::get(["triggers", name])).await?;
    if screen.json() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    let trigger: TriggerView = answer.read()?;
    let (reading, paint) = trigger.reading(screen);
    let here = &trigger.here;
    let facts = Facts::new()
        .with("Name", &trigger.name)
        .with("Version", &trigger.version)
        .with("Description", &trigger.description)
        .with("Broker", &trigger.broker)
        .with("Queue", &trigger.queue)
        .with("Owner", &trigger.owner.name)
        .painted("Read since", reading, paint)
        .with("Delivered", here.delivered.to_string())
        .with("Started", here.started.to_string())
        .with("There already", here.replayed.to_string())
        .with("Refused", here.refused.to_string())
        .with("If refused", &trigger.on_refused)
        .with("Last job", &here.last_job_id)
        .painted("Last error", trigger.error(screen), Paint::Bad);
    screen.facts(&facts)?;
    Ok(Exit::Success)
}
