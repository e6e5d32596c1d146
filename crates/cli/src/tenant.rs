//! `tenant create|list`: the walls.

use clap::Subcommand;
use serde::Deserialize;

use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::output::{Cell, Column, Facts, Screen, Text};

#[derive(Debug, Clone, Subcommand)]
pub enum TenantCommand {
    /// Create a tenant
    Create {
        /// The name
        name: String,
    },
    /// List the tenants
    List,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TenantView {
    id: Text,
    name: Text,
    created_at: Text,
}

const COLUMNS: [Column; 3] = [Column::left("ID").whole(), Column::left("NAME"), Column::left("CREATED")];

fn row(screen: &Screen, tenant: &TenantView) -> Vec<Cell> {
    vec![(&tenant.id).into(), (&tenant.name).into(), screen.ago(&tenant.created_at).into()]
}

pub async fn run(client: &Client, screen: &mut Screen, command: TenantCommand) -> Result<Exit, Failure> {
    match command {
        TenantCommand::Create { name } => {
            let body = serde_json::json!({ "name": name }).to_string();
            let answer = client.call(&Request::post(["tenants"]).body(body)).await?;
            if screen.json() {
                screen.json_line(answer.text())?;
                return Ok(Exit::Success);
            }
            let tenant: TenantView = answer.read()?;
            screen.facts(&Facts::new().with("id", &tenant.id).with("name", &tenant.name))?;
            screen.note(&format!(
                "give it a token with `bowline token create --kind api --name NAME --tenant {}`",
                tenant.id
            ));
        }
        TenantCommand::List => {
            let mut listing = Listing::new(screen, "tenants", None, &COLUMNS, row);
            listing.read(client, Request::get(["tenants"])).await?;
            listing.finish("No tenants. Make one with `bowline tenant create NAME`.")?;
        }
    }
    Ok(Exit::Success)
}
