//! `blocks list`.

use serde::Deserialize;

use crate::actor::ActorView;
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::output::{Cell, Column, Paint, Screen, Text};

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
pub struct BlockView {
    pub id: Text,
    pub inventory: Text,
    pub host: Text,
    pub selector: Text,
    pub command: Text,
    pub reason: Text,
    pub by: Text,
    pub actor: ActorView,
    pub created_at: Text,
    pub expires_at: Text,
    pub expired: bool,
}

impl BlockView {
    /// The host, or the selector.
    pub fn place(&self) -> &str {
        self.host.or(self.selector.as_str())
    }
}

const COLUMNS: [Column; 8] = [
    Column::right("ID").whole(),
    Column::left("WHERE"),
    Column::left("COMMAND"),
    Column::left("UNTIL"),
    Column::left("REASON"),
    Column::left("BY").spare(),
    Column::left("SINCE").spare(),
    Column::left("INVENTORY").spare(),
];

fn row(screen: &Screen, block: &BlockView) -> Vec<Cell> {
    let until = match (block.expired, block.expires_at.is_empty()) {
        (true, _) => Cell::painted(format!("over, {}", screen.ago(&block.expires_at)), Paint::Quiet),
        (false, true) => "lifted".into(),
        (false, false) => screen.ago(&block.expires_at).into(),
    };
    vec![
        (&block.id).into(),
        block.place().into(),
        block.command.or("every").into(),
        until,
        (&block.reason).into(),
        block.actor.or(&block.by).into(),
        screen.ago(&block.created_at).into(),
        (&block.inventory).into(),
    ]
}

pub async fn list(client: &Client, screen: &mut Screen, actor: Option<String>) -> Result<Exit, Failure> {
    let mut listing = Listing::new(screen, "blocks", None, &COLUMNS, row);
    listing.read(client, Request::get(["blocks"]).query_if("actor", actor)).await?;
    listing.finish("No blocks: commands may run everywhere.")?;
    Ok(Exit::Success)
}
