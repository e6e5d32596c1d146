//! Which ledger: the one place that knows that SQLite and PostgreSQL exist.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bowline_store::{Clock, Observer, SteadyClock};
use bowline_store_sql::{PgSettings, SqlLedger, SqlSettings, WriteShare};
use rand::RngExt;

use crate::config::Config;
use crate::modes::prepare_directory;

/// An open ledger, and the clock it goes by.
pub struct Opened {
    pub ledger: Arc<SqlLedger>,
    pub clock: Arc<dyn Clock>,
    pub embedded: bool,
}

/// Opens the ledger the configuration names, in this version's shape; makes it where there is none.
pub async fn open(config: &Config, observer: Option<Arc<dyn Observer>>) -> anyhow::Result<Opened> {
    open_or_make(config, true, observer).await
}

/// Opens the ledger as it is. One that is not there, or of another version, is an error.
pub async fn open_as_it_is(config: &Config) -> anyhow::Result<Opened> {
    open_or_make(config, false, None).await
}

async fn open_or_make(config: &Config, make: bool, observer: Option<Arc<dyn Observer>>) -> anyhow::Result<Opened> {
    let settings = SqlSettings {
        clock: SteadyClock::start(),
        clock_rules: Some(config.clock.rules()),
        key_ttl_ms: (config.retention.idempotency_hours * 3_600_000.0) as i64,
        margin: config.lease.margin(),
        backlog_max: config.limits.backlog_jobs,
        write_share: WriteShare { weight: config.limits.waiting_writes_per_tenant, ..WriteShare::default() },
        seed: rand::rng().random(),
        make,
        observer,
    };
    let embedded = config.database.url.is_none();
    let ledger = match config.database.full_url() {
        None => {
            if make {
                prepare_directory(&config.server.data_dir)?;
            }
            let directory = config.server.data_dir.clone();
            tokio::task::spawn_blocking(move || SqlLedger::open_sqlite(&directory, &settings))
                .await?
                .with_context(|| format!("the ledger in {} cannot be opened", config.server.data_dir.display()))?
        }
        Some(url) => {
            let pg = PgSettings {
                url,
                connect_timeout: Duration::from_millis(config.database.connect_timeout_ms),
                statement_timeout: Duration::from_millis(config.database.statement_timeout_ms),
                clock: None,
            };
            SqlLedger::open_postgres(pg, &settings).await.context("the PostgreSQL ledger cannot be opened")?
        }
    };
    Ok(Opened { clock: ledger.clock(), ledger: Arc::new(ledger), embedded })
}
