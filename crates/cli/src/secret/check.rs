//! `secret check`.

use serde::Deserialize;

use super::CheckArgs;
use super::list::RefView;
use crate::client::{Again, Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Screen, Text};

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct Checked {
    name: Text,
    #[serde(rename = "ref")]
    reference: Text,
    ok: bool,
    message: Text,
}

#[derive(Deserialize)]
struct Page {
    resources: Vec<RefView>,
    #[serde(default)]
    next_cursor: Option<String>,
}

/// Fails if one of them cannot be had.
pub async fn check(client: &Client, screen: &mut Screen, args: CheckArgs) -> Result<Exit, Failure> {
    let names = if args.names.is_empty() { all(client).await? } else { args.names };
    if names.is_empty() && !screen.json() {
        screen.line("There are no secret_refs.")?;
    }
    let mut exit = Exit::Success;
    for name in &names {
        // Looking twice is looking once.
        let answer = client.call(&Request::post(["secrets", name, "check"]).again(Again::Safe)).await?;
        let checked: Checked = answer.read()?;
        if !checked.ok {
            exit = Exit::Refused;
        }
        if screen.json() {
            screen.json_line(answer.text())?;
            continue;
        }
        let place = checked.reference.or("its place is not allowed");
        let said = if checked.ok { "ok".to_owned() } else { checked.message.to_string() };
        screen.line(&format!("{} ({place}): {said}", checked.name))?;
    }
    Ok(exit)
}

async fn all(client: &Client) -> Result<Vec<String>, Failure> {
    let (mut names, mut cursor) = (Vec::new(), None);
    loop {
        let request = Request::get(["resources", "secret_ref"]).query_if("cursor", cursor);
        let page: Page = client.call(&request).await?.read()?;
        names.extend(page.resources.iter().map(|secret| secret.name.to_string()));
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(names),
        }
    }
}
