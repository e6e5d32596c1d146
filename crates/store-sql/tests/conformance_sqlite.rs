//! Every promise of `store::conformance`, kept by SQLite: a ledger in a file, with its real threads.

use std::sync::Arc;

use bowline_model::clock::ClockRules;
use bowline_store::ManualClock;
use bowline_store::conformance::{self, Bench};
use bowline_store_sql::{SqlLedger, SqlSettings};

async fn keep(promise: impl AsyncFnOnce(&Bench)) {
    let directory = tempfile::tempdir().expect("a place for the ledger");
    let clock = ManualClock::at(Bench::START);
    let settings = SqlSettings {
        clock_rules: Some(ClockRules::default()),
        key_ttl_ms: Bench::KEY_TTL_MS,
        backlog_max: Bench::BACKLOG_MAX,
        ..SqlSettings::new(clock.clone())
    };
    let ledger = SqlLedger::open_sqlite(directory.path(), &settings).expect("a new ledger opens");
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
