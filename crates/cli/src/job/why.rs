//! `job why ID`: what a job is waiting for.

use bowline_model::JobId;
use serde::Deserialize;

use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Paint, Screen, Text};

#[derive(Deserialize, Default)]
#[serde(default)]
struct WhyView {
    status: Text,
    sentence: Text,
    reasons: Vec<ReasonView>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ReasonView {
    code: Text,
    sentence: Text,
}

pub async fn why(client: &Client, screen: &mut Screen, id: JobId) -> Result<Exit, Failure> {
    let answer = client.call(&Request::get(["jobs", &id.to_string(), "why"])).await?;
    if screen.json() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    let why: WhyView = answer.read()?;
    let color = screen.color();
    let status = Paint::of_status(why.status.as_str()).on(why.status.as_str(), color);
    screen.line(&format!("{status}: {}", why.sentence))?;
    for reason in &why.reasons {
        // One reason is usually the whole sentence; it need not be said twice.
        if plain(&reason.sentence) != plain(&why.sentence) {
            screen.line(&format!(
                "  - {} {}",
                reason.sentence,
                Paint::Quiet.on(&format!("({})", reason.code), color)
            ))?;
        }
    }
    Ok(Exit::Success)
}

/// A sentence without what makes it one.
fn plain(sentence: &Text) -> String {
    sentence.as_str().trim_end_matches('.').to_lowercase()
}
