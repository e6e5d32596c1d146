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
    name: Text,
    email: Text,
    tenant: Text,
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
    let tenant = match (caller.tenant.as_str(), caller.tenant_id.as_str()) {
        ("", id) => id.to_owned(),
        (name, id) => format!("{name} ({id})"),
    };
    screen.facts(
        &Facts::new()
            .with("name", &caller.name)
            .with("email", &caller.email)
            .with("actor", &caller.actor)
            .with("tenant", tenant)
            .with("scopes", joined(&caller.scopes))
            .with("audiences", joined(&caller.audiences.unwrap_or_default())),
    )?;
    Ok(Exit::Success)
}

/// The words in one line.
pub fn joined(words: &[Text]) -> String {
    words.iter().map(Text::as_str).collect::<Vec<_>>().join(", ")
}
