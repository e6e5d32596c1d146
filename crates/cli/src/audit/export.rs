//! `audit export`.

use super::ChainArgs;
use super::walk::{Exported, each};
use crate::client::Client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Screen;

pub async fn export(client: &Client, screen: &mut Screen, chain: &ChainArgs) -> Result<Exit, Failure> {
    each(client, chain, |chain, record| {
        let line = serde_json::to_string(&Exported { chain, record });
        screen.json_line(&line.map_err(|error| client.strange(error.to_string()))?)?;
        Ok(true)
    })
    .await?;
    Ok(Exit::Success)
}
