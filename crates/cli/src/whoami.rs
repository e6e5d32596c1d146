//! `whoami`: who the server takes the caller for.

use serde::Deserialize;

use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Facts, Screen, Text};

#[derive(Deserialize, Default)]
#[serde(default)]
struct CallerView {
    actor: Text,
    tenant_id: Text,
    scopes: Vec<Text>,
    audiences: Option<Vec<Text>>,
}

pub async fn run(client: &Client, screen: &mut Screen) -> Result<Exit, Failure> {
    let answer = client.call(&Request::get(["whoami"])).await?;
    if screen.json() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    let caller: CallerView = answer.read()?;
    screen.facts(
        &Facts::new()
            .with("actor", &caller.actor)
            .with("tenant", &caller.tenant_id)
            .with("scopes", joined(&caller.scopes))
            .with("audiences", joined(&caller.audiences.unwrap_or_default())),
    )?;
    Ok(Exit::Success)
}

/// The words in one line.
pub fn joined(words: &[Text]) -> String {
    words.iter().map(Text::as_str).collect::<Vec<_>>().join(", ")
}
