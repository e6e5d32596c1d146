//! `job why ID`: what a job is waiting for.

use bowline_model::JobId;
use serde::Deserialize;

use crate::client::{Again, Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Paint, Screen, Text};

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct WhyView {
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

impl WhyView {
    /// Asks for one, on the way to something else.
    pub async fn ask(client: &Client, id: &str) -> Result<Self, Failure> {
        client.call(&Request::get(["jobs", id, "why"]).again(Again::Patient)).await?.read()
    }

    /// What hosts wait for, sentence by sentence, without how far the whole is.
    pub fn of_waiting(&self) -> impl Iterator<Item = &str> {
        let others = self.reasons.iter().filter(|reason| !matches!(reason.code.as_str(), "running" | "canceling"));
        others.map(|reason| reason.sentence.as_str())
    }
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
