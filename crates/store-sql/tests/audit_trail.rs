//! The audit trail under attack: a trail that cannot be written stops the deed and nothing else, and whoever changes it
//! behind the ledger's back is found out, at the right place.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bowline_model::JobStatus;
use bowline_model::audit::{Chain, ChainFault, ChainWalk, Head};
use bowline_store::conformance::Bench;
use bowline_store::{AuditFilter, AuditFrom, ManualClock, OrderAnswer, StoreError};
use bowline_store_sql::{PgSettings, SqlLedger, SqlSettings};
use bowline_testkit::{connect, fresh_database};

fn settings(clock: &Arc<ManualClock>) -> SqlSettings {
    SqlSettings { backlog_max: Bench::BACKLOG_MAX, ..SqlSettings::new(clock.clone()) }
}

fn sqlite(directory: &Path) -> Bench {
    let clock = ManualClock::at(Bench::START);
    let ledger = SqlLedger::open_sqlite(directory, &settings(&clock)).expect("a new ledger opens");
    Bench::new(Arc::new(ledger), clock)
}

/// C13, B103: `full` makes the trail unwritable, `free` ends that.
async fn what_cannot_be_recorded_is_not_done(bench: &Bench, full: impl AsyncFn(), free: impl AsyncFn()) {
    let (early, late) = (bench.submit(bench.job()).await, bench.submit(bench.job()).await);
    assert_eq!(bench.cancel(early).await, OrderAnswer::Done(JobStatus::Canceled));
    full().await;
    let before = bench.history(late).await.len();
    // In one batch or in several: ordinary work goes on beside those who are refused.
    let (refused, again, stored) = tokio::join!(
        bench.ledger.cancel_job(bench.order(late)),
        bench.ledger.cancel_job(bench.order(late)),
        bench.ledger.submit(vec![bench.job()]),
    );
    for refused in [refused, again] {
        let Err(StoreError::Unavailable(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains("the audit trail cannot be written"), "{why}");
    }
    stored.expect("jobs need no record");
    assert_eq!((bench.status(late).await, bench.history(late).await.len()), (JobStatus::Queued, before));
    bench.verifies().await;
    free().await;
    assert_eq!(bench.cancel(late).await, OrderAnswer::Done(JobStatus::Canceled));
    let chain = Chain::Tenant(bench.tenant);
    let page = bench.ledger.list_audit(chain, AuditFilter::default(), AuditFrom::After(0), 10).await;
    let numbers: Vec<u64> = page.expect("it can be read").items.iter().map(|record| record.number).collect();
    assert_eq!(numbers, [1, 2], "no gap, and no record of what was not done");
    bench.verifies().await;
}

#[tokio::test]
async fn what_cannot_be_recorded_is_not_done_on_sqlite() {
    let directory = tempfile::tempdir().expect("a place for the ledger");
    let bench = sqlite(directory.path());
    let vandal = rusqlite::Connection::open(directory.path().join("bowline.db")).expect("the file is there");
    let say = async |sql: &str| vandal.execute_batch(sql).expect("it can be said");
    what_cannot_be_recorded_is_not_done(
        &bench,
        || say("create trigger full before insert on audit begin select raise(abort, 'no room'); end"),
        || say("drop trigger full"),
    )
    .await;
}

#[tokio::test]
async fn what_cannot_be_recorded_is_not_done_on_postgresql() {
    let database = fresh_database();
    let clock = ManualClock::at(Bench::START);
    let pg = PgSettings {
        url: database.url().to_owned(),
        connect_timeout: Duration::from_secs(20),
        statement_timeout: Duration::from_secs(20),
        clock: Some(clock.clone()),
    };
    let ledger = SqlLedger::open_postgres(pg, &settings(&clock)).await.expect("a new ledger opens");
    let bench = Bench::new(Arc::new(ledger), clock);
    let vandal = connect(database.url()).await.expect("the database is there");
    let say = async |sql: &str| vandal.batch_execute(sql).await.expect("it can be said");
    what_cannot_be_recorded_is_not_done(
        &bench,
        || {
            say("create function no_room() returns trigger as $$ begin raise exception 'no room'; end $$ language plpgsql;
                 create trigger no_room before insert on audit for each row execute function no_room()")
        },
        || say("drop trigger no_room on audit"),
    )
    .await;
}

/// What is done to a trail of 30 records, in SQLite's own words, and what is said of it without and with a signed head.
fn damages() -> Vec<(&'static str, &'static str, ChainFault)> {
    vec![
        ("one field is changed", "update audit set actor = 'eve' where number = 7", ChainFault::Changed(7)),
        ("a field is emptied", "update audit set reason = null where number = 7", ChainFault::Changed(7)),
        ("a row is deleted", "delete from audit where number = 7", ChainFault::Missing(7)),
        (
            "two rows are swapped",
            "update audit set number = -7 where number = 7; update audit set number = 7 where number = 12;
             update audit set number = 12 where number = -7",
            ChainFault::Changed(7),
        ),
        ("the first row is deleted", "delete from audit where number = 1", ChainFault::Missing(1)),
        ("the last ten are deleted", "delete from audit where number > 20", ChainFault::CutOff { last: 20, head: 30 }),
        (
            "the last ten are deleted, and the end is made to fit",
            "delete from audit where number > 20;
             update audit_chain set number = 20, hash = (select hash from audit where number = 20)",
            ChainFault::CutOff { last: 20, head: 30 },
        ),
        (
            "everything is deleted",
            "delete from audit; delete from audit_chain",
            ChainFault::CutOff { last: 0, head: 30 },
        ),
    ]
}

/// B101, U4.
#[tokio::test]
async fn every_change_behind_the_ledgers_back_is_named() {
    for (what, damage, wanted) in damages() {
        let directory = tempfile::tempdir().expect("a place for the ledger");
        let bench = sqlite(directory.path());
        for job in bench.submit_many(30).await {
            assert_eq!(bench.cancel(job).await, OrderAnswer::Done(JobStatus::Canceled));
        }
        bench.verifies().await;
        let chain = Chain::Tenant(bench.tenant);
        let signed: Vec<Head> = bench.ledger.audit_heads().await.expect("it can be read");
        let vandal = rusqlite::Connection::open(directory.path().join("bowline.db")).expect("the file is there");
        vandal.execute_batch(damage).expect("the damage can be done");
        let page = bench.ledger.list_audit(chain, AuditFilter::default(), AuditFrom::After(0), 100).await;
        let mut walk = ChainWalk::new(chain, signed);
        let records = page.expect("it can be read").items;
        let found = records.iter().try_for_each(|record| walk.step(record)).and_then(|()| walk.finish().map(drop));
        assert_eq!(found, Err(wanted.clone()), "{what}");
        // The ledger's own proof needs no signature, unless somebody made everything fit.
        let faults = bench.ledger.verify(10).await.expect("it can be verified").faults;
        let fits = what.contains("made to fit") || what.contains("everything");
        assert_eq!(faults.is_empty(), fits, "{what}: {faults:?}");
        if !fits {
            assert!(faults[0].contains(&wanted.to_string()) && faults[0].contains(&chain.to_string()), "{faults:?}");
        }
    }
}
