//! One job that cannot be read as it was stored does not hide the others, on either engine: it is shown, and says what is
//! wrong with it.

use std::sync::Arc;
use std::time::Duration;

use bowline_model::{ErrorClass, JobStatus};
use bowline_store::conformance::{Bench, attempts, labels};
use bowline_store::{Claimant, ManualClock, NewJob};
use bowline_store_sql::{PgSettings, SqlLedger, SqlSettings};

/// What is done to job 1 behind the ledger's back, and what its error then says.
const DAMAGES: [(&str, &str); 5] = [
    ("update job set error = '{\"class\":' where number = 1", "its stored error"),
    ("update job set error = '{\"class\":\"new\",\"message\":\"x\"}' where number = 1", "unknown variant `new`"),
    ("update job set policy = 'nothing' where number = 1", "its policy"),
    ("update job set status = 777 where number = 1", "its status"),
    ("update channel set requires = '=' where id = (select channel from job where number = 1)", "its labels"),
];

async fn healthy(bench: &Bench) {
    let requires = labels(&[("disk", "fast")]);
    bench.submit(NewJob { policy: attempts(1), requires: requires.clone(), ..bench.job() }).await;
    let mut able = (*bench.worker("w1").abilities).clone();
    able.labels = requires;
    let run = bench.claim(Claimant { abilities: Arc::new(able), ..bench.worker("w1") }).await.remove(0);
    bench.fail(&run, ErrorClass::Permanent).await;
    bench.submit_many(2).await;
}

async fn shows_all(bench: &Bench, damage: &str, says: &str) {
    let listed = bench.ledger.list_jobs(bench.tenant, Default::default(), None, 10).await;
    let listed = listed.unwrap_or_else(|e| panic!("after {damage:?} nothing can be listed: {e}")).items;
    assert_eq!(listed.iter().map(|job| job.number).collect::<Vec<_>>(), [3, 2, 1], "{damage}");
    assert!(listed[..2].iter().all(|job| job.error.is_none() && job.state.status == JobStatus::Queued), "{damage}");
    let error = listed[2].error.as_ref().unwrap_or_else(|| panic!("nobody says so: {damage}"));
    assert!(error.message.starts_with("this job could not be read as it was stored"), "{error:?}");
    assert!(error.message.contains(says), "{damage}: {error:?}");
    let (alone, runs) = bench.find(listed[2].id).await;
    assert_eq!((alone.error.as_ref(), runs.len()), (Some(error), 1), "{damage}");
}

#[tokio::test]
async fn a_damaged_job_is_shown_with_its_neighbours() {
    for (damage, says) in DAMAGES {
        let directory = tempfile::tempdir().expect("a place for the ledger");
        let clock = ManualClock::at(Bench::START);
        let ledger = SqlLedger::open_sqlite(directory.path(), &SqlSettings::new(clock.clone())).expect("it opens");
        let bench = Bench::new(Arc::new(ledger), clock);
        healthy(&bench).await;
        let vandal = rusqlite::Connection::open(directory.path().join("bowline.db")).expect("the file is there");
        assert_eq!(vandal.execute(damage, []).expect("the damage can be done"), 1, "{damage}");
        shows_all(&bench, damage, says).await;
    }
}

#[tokio::test]
async fn a_damaged_job_is_shown_with_its_neighbours_on_postgresql() {
    for (damage, says) in DAMAGES {
        let database = bowline_testkit::fresh_database();
        let clock = ManualClock::at(Bench::START);
        let pg = PgSettings {
            url: database.url().to_owned(),
            connect_timeout: Duration::from_secs(20),
            statement_timeout: Duration::from_secs(20),
            clock: Some(clock.clone()),
        };
        let ledger = SqlLedger::open_postgres(pg, &SqlSettings::new(clock.clone())).await.expect("it opens");
        let bench = Bench::new(Arc::new(ledger), clock);
        healthy(&bench).await;
        let vandal = bowline_testkit::connect(database.url()).await.expect("the database is there");
        assert_eq!(vandal.execute(damage, &[]).await.expect("the damage can be done"), 1, "{damage}");
        shows_all(&bench, damage, says).await;
    }
}
