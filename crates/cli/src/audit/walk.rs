//! A chain, read from its beginning: from the server page by page, or from a file that was exported.

use bowline_model::audit::{AuditRecord, Chain};
use serde::{Deserialize, Serialize};

use super::ChainArgs;
use crate::client::Client;
use crate::failure::Failure;

/// A record as it is exported: with the name of its chain, without which it cannot be checked.
#[derive(Debug, Serialize, Deserialize)]
pub struct Exported {
    pub chain: Chain,
    #[serde(flatten)]
    pub record: AuditRecord,
}

#[derive(Deserialize)]
struct Page {
    chain: Chain,
    records: Vec<AuditRecord>,
    next_cursor: Option<String>,
}

/// Hands every record of the server's chain to `take`, oldest first, until it has seen enough. Says which chain it was.
pub async fn each(
    client: &Client,
    chain: &ChainArgs,
    mut take: impl FnMut(Chain, AuditRecord) -> Result<bool, Failure>,
) -> Result<Chain, Failure> {
    let request = chain.request().query("order", "oldest").query("limit", "500");
    let mut cursor = None;
    loop {
        let page: Page = client.call(&request.clone().query_if("cursor", cursor.clone())).await?.read()?;
        for record in page.records {
            if !take(page.chain, record)? {
                return Ok(page.chain);
            }
        }
        match page.next_cursor {
            // A cursor that does not move leads nowhere.
            Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
            _ => return Ok(page.chain),
        }
    }
}
