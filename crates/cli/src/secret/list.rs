//! `secret list`.

use serde::Deserialize;

use crate::actor::ActorView;
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::output::{Cell, Column, Paint, Screen, Text};

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
pub struct RefView {
    pub name: Text,
    active: Text,
    updated_at: Text,
    by: Text,
    actor: ActorView,
    spec: SpecView,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct SpecView {
    #[serde(rename = "ref")]
    reference: Text,
    version: Text,
    commands: Vec<Text>,
    connectors: Vec<Text>,
    hosts: Vec<Text>,
    description: Text,
}

const COLUMNS: [Column; 7] = [
    Column::left("NAME").whole(),
    Column::left("REF").whole(),
    Column::left("VERSION"),
    Column::left("FOR"),
    Column::left("CHANGED"),
    Column::left("BY").spare(),
    Column::left("DESCRIPTION").spare(),
];

fn row(screen: &Screen, secret: &RefView) -> Vec<Cell> {
    let users = secret.spec.commands.iter().chain(&secret.spec.connectors);
    let users: Vec<&str> =
        users.map(|user| if user.as_str() == "*" { "every command" } else { user.as_str() }).collect();
    let hosts: Vec<&str> = secret.spec.hosts.iter().map(Text::as_str).collect();
    let mut for_whom = users.join(", ");
    if !hosts.is_empty() {
        for_whom = format!("{for_whom} (to {})", hosts.join(", "));
    }
    let reference = match secret.active.as_str() {
        "" => Cell::painted("none is active", Paint::Bad),
        _ => (&secret.spec.reference).into(),
    };
    vec![
        (&secret.name).into(),
        reference,
        (&secret.spec.version).into(),
        if users.is_empty() { Cell::painted("nothing yet", Paint::Quiet) } else { Cell::new(for_whom) },
        screen.ago(&secret.updated_at).into(),
        secret.actor.or(&secret.by).into(),
        (&secret.spec.description).into(),
    ]
}

pub async fn list(client: &Client, screen: &mut Screen) -> Result<Exit, Failure> {
    let mut listing = Listing::new(screen, "resources", None, &COLUMNS, row);
    listing.read(client, Request::get(["resources", "secret_ref"])).await?;
    listing.finish("There are no secret_refs.")?;
    Ok(Exit::Success)
}
