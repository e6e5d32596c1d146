//! `hosts inventories`.

use serde::Deserialize;

use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::output::time::thousands;
use crate::output::{Cell, Column, Screen, Text};

#[derive(Deserialize, Default)]
#[serde(default)]
struct InventoryView {
    name: Text,
    hosts: u64,
    groups: u64,
    revision: Text,
    updated_at: Text,
}

const COLUMNS: [Column; 5] = [
    Column::left("INVENTORY").whole(),
    Column::right("HOSTS"),
    Column::right("GROUPS"),
    Column::right("REVISION"),
    Column::left("CHANGED"),
];

fn row(screen: &Screen, inventory: &InventoryView) -> Vec<Cell> {
    vec![
        (&inventory.name).into(),
        thousands(inventory.hosts).into(),
        thousands(inventory.groups).into(),
        (&inventory.revision).into(),
        screen.ago(&inventory.updated_at).into(),
    ]
}

pub async fn list(client: &Client, screen: &mut Screen) -> Result<Exit, Failure> {
    let mut listing = Listing::new(screen, "inventories", None, &COLUMNS, row);
    listing.read(client, Request::get(["inventories"])).await?;
    listing.finish(
        "No inventories. The first one is made with `bowline hosts import FILE` or `bowline hosts add NAME`.",
    )?;
    Ok(Exit::Success)
}

/// One inventory, as a table of one row.
pub async fn one(client: &Client, screen: &mut Screen, name: &str) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct One {
        inventory: InventoryView,
    }
    let answer: One = client.call(&Request::get(["inventories", name])).await?.read()?;
    let row = row(screen, &answer.inventory);
    screen.table(&COLUMNS, &[row])
}
