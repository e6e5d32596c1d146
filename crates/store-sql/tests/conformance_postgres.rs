//! Every promise of `store::conformance`, kept by PostgreSQL: a database for each, on a real server.

use std::sync::Arc;
use std::time::Duration;

use bowline_model::clock::ClockRules;
use bowline_store::ManualClock;
use bowline_store::conformance::{self, Bench};
use bowline_store_sql::{PgSettings, SqlLedger, SqlSettings};

async fn keep(promise: impl AsyncFnOnce(&Bench)) {
    let database = bowline_testkit::fresh_database();
    let clock = ManualClock::at(Bench::START);
    let pg = PgSettings {
        url: database.url().to_owned(),
        connect_timeout: Duration::from_secs(20),
        statement_timeout: Duration::from_secs(20),
        clock: Some(clock.clone()),
    };
    let settings = SqlSettings {
        clock_rules: Some(ClockRules::default()),
        key_ttl_ms: Bench::KEY_TTL_MS,
        backlog_max: Bench::BACKLOG_MAX,
        ..SqlSettings::new(clock.clone())
    };
    let ledger = SqlLedger::open_postgres(pg, &settings).await.expect("a new ledger opens");
    Bench::new(Arc::new(ledger), clock).keeps(promise).await;
}

macro_rules! promises {
    ($($noun:ident: $($promise:ident)* ;)*) => {
        $(mod $noun {
            $(#[tokio::test]
            async fn $promise() {
                super::keep(super::conformance::$noun::$promise).await;
            })*
        })*
    };
}

bowline_store::for_each_promise!(promises);
