//! A plain connection for looking into a database from outside, and for creating and dropping databases.

use std::time::Duration;

use anyhow::Context;
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

use crate::backstage;

/// Far longer than creating a database takes. A frozen server must not hang the test that forgot to thaw it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client whose connection is driven in the background of the current runtime, until the client is dropped.
///
/// For oracles: what a test wants to know about the database should not come through the code it tests.
pub async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let mut driver = JoinSet::new();
    // The client learns of a broken connection by its own next call; there is nobody else to tell.
    driver.spawn(async move { drop(connection.await) });
    driver.detach_all();
    Ok(client)
}

/// Runs statements that cannot be part of a transaction, from wherever we are.
pub(super) fn execute(url: &str, statement: &str) -> anyhow::Result<()> {
    let work = async || {
        let client = connect(url).await.with_context(|| format!("cannot connect to {url}"))?;
        client.batch_execute(statement).await.with_context(|| format!("{statement:?} failed"))
    };
    let patiently = async || tokio::time::timeout(PATIENCE, work()).await.context("the server does not answer")?;
    backstage::block_on(patiently)
}

/// A name no other test has, on whichever server.
pub(super) fn unique_name() -> String {
    format!("bowline_test_{}_{:016x}", std::process::id(), rand::random::<u64>())
}
