//! `quota`: what this tenant uses, and what it may.

use serde::Deserialize;

use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::output::time::thousands;
use crate::output::{Cell, Column, Paint, Screen, Text};

#[derive(Deserialize, Default)]
#[serde(default)]
struct QuotaView {
    quota: Text,
    used: u64,
    max: u64,
}

const COLUMNS: [Column; 4] =
    [Column::left("QUOTA"), Column::right("USED"), Column::right("MAX"), Column::right("PART")];

fn row(_: &Screen, quota: &QuotaView) -> Vec<Cell> {
    let part = quota.used.saturating_mul(100) / quota.max.max(1);
    let paint = if part >= 90 { Paint::Bad } else { Paint::Plain };
    vec![
        (&quota.quota).into(),
        Cell::painted(thousands(quota.used), paint),
        thousands(quota.max).into(),
        Cell::painted(format!("{part} %"), paint),
    ]
}

pub async fn run(client: &Client, screen: &mut Screen) -> Result<Exit, Failure> {
    let mut listing = Listing::new(screen, "quotas", None, &COLUMNS, row);
    listing.read(client, Request::get(["quotas"])).await?;
    listing.finish("The server named no quotas.")?;
    Ok(Exit::Success)
}
