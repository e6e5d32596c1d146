//! The oracle of all other tests must be able to say no: every sort of damage, done to a healthy ledger behind its back,
//! is found, and the job it was done to is named.

use std::path::Path;
use std::sync::Arc;

use bowline_model::{ErrorClass, JobPolicy};
use bowline_store::conformance::{Bench, policy};
use bowline_store::{Claimant, ManualClock, NewJob};
use bowline_store_sql::{SqlLedger, SqlSettings};

/// One more lease, for this job.
macro_rules! lease {
    ($number:literal) => {
        concat!(
            "insert into lease (run, number, worker, accepted, renewed_at, deadline_at)
             select randomblob(16), ",
            $number,
            ", worker, accepted, renewed_at, deadline_at from lease where number = 3"
        )
    };
}

/// To which job it was done, what, and how in SQLite's own words. The jobs are, by their numbers: 1 queued, 2 pending,
/// 3 running and told twice, 4 succeeded, 5 dead, 6 queued with a deadline.
const DAMAGES: [(i64, &str, &str); 35] = [
    (1, "a queued job lost its place", "delete from queue where number = 1"),
    (1, "a queued job stands in another line", "update queue set channel = channel + 1 where number = 1"),
    (1, "a queued job stands in line twice", "insert into queue (channel, rank, number) values (77, 0, 1)"),
    (4, "a finished job stands in line", "insert into queue (channel, rank, number) values (1, 0, 4)"),
    (2, "a pending job lost its timer", "delete from timer where number = 2"),
    (2, "a timer goes off at another time", "update timer set due_at = due_at + 1 where number = 2"),
    (3, "a running job has a timer", "insert into timer (due_at, number, channel) values (1, 3, 1)"),
    (3, "a running job lost its lease", "delete from lease where number = 3"),
    (3, "a lease belongs to another job", "update lease set number = 1 where number = 3"),
    (1, "a job has another status", "update job set status = 12 where number = 1"),
    (4, "a job forgot an attempt", "update job set attempts = 0 where number = 4"),
    (5, "a job forgot a failure", "update job set failures = 0 where number = 5"),
    (4, "a fence went back", "update job set fence = 0 where number = 4"),
    (4, "a run has another status", "update run set status = 11 where number = 4"),
    (4, "a run has another number", "update run set attempt = 2 where number = 4"),
    (4, "a run is gone", "delete from run where number = 4"),
    (4, "an end is not told", "delete from event where number = 4 and kind = 'job_succeeded'"),
    (1, "a beginning is not told", "delete from event where number = 1 and kind = 'job_enqueued'"),
    (
        5,
        "an end is told twice",
        "insert into event (tenant, number, fence, kind, at, data)
       select tenant, number, fence, kind, at, data from event where number = 5 and kind = 'job_deadlettered'",
    ),
    (3, "a told event is gone", "delete from event where number = 3 and seq = 1"),
    (5, "a dead job has no dead letter", "delete from dead_letter where number = 5"),
    (
        5,
        "a dead job has two open dead letters",
        "insert into dead_letter (tenant, lane, number, at, status)
       select tenant, lane, number, at, status from dead_letter where number = 5",
    ),
    (5, "a job that succeeded has an open dead letter", "update dead_letter set number = 4 where number = 5"),
    (1, "a queued job has a timer", "insert into timer (due_at, number, channel) values (1, 1, 1)"),
    (1, "a queued job has a lease", lease!(1)),
    (2, "a pending job stands in line", "insert into queue (channel, rank, number) values (1, 0, 2)"),
    (2, "a pending job has two timers", "insert into timer (due_at, number, channel) values (1, 2, 1)"),
    (2, "a pending job has a lease", lease!(2)),
    (3, "a running job stands in line", "insert into queue (channel, rank, number) values (1, 0, 3)"),
    (3, "a running job has two leases", lease!(3)),
    (4, "a finished job has a timer", "insert into timer (due_at, number, channel) values (1, 4, 1)"),
    (4, "a finished job has a lease", lease!(4)),
    (1, "a job that may take as long as it likes has a deadline", "insert into deadline (number, at) values (1, 1)"),
    (6, "a deadline is forgotten", "delete from deadline where number = 6"),
    (1, "a plain job waits for a host", "insert into turn (host, unit, shared, held) values (1, 1, 0, 0)"),
];

/// Rows that name a job that is not there, and a word of what is said of them.
const LEFT: [(&str, &str); 6] = [
    ("the queue", "insert into queue (channel, rank, number) values (1, 0, 99)"),
    ("a timer", "insert into timer (due_at, number, channel) values (1, 99, 1)"),
    ("a lease", lease!(99)),
    ("a deadline", "insert into deadline (number, at) values (99, 1)"),
    ("a turn", "insert into turn (host, unit, shared, held) values (1, 99, 0, 0)"),
    (
        "a dead letter",
        "insert into dead_letter (tenant, lane, number, at, status)
       select tenant, lane, 99, at, status from dead_letter where number = 5",
    ),
];

async fn healthy(bench: &Bench) {
    bench.submit(NewJob { priority: -1, ..bench.job() }).await;
    bench.submit(NewJob { run_at: Some(bench.now().plus_millis(60_000)), ..bench.job() }).await;
    bench.submit_many(3).await;
    let runs = bench.claim(Claimant { wants: 3, ..bench.worker("w1") }).await;
    bench.tell(bench.telling(&runs[0], &[1, 2])).await;
    bench.succeed(&runs[1]).await;
    bench.fail(&runs[2], ErrorClass::Permanent).await;
    let limited = policy(JobPolicy { deadline_ms: Some(60_000), ..JobPolicy::default() });
    bench.submit(NewJob { policy: limited, ..bench.job() }).await;
    bench.verifies().await;
}

/// A healthy ledger, and somebody who gets at its file.
async fn ledger(directory: &Path) -> (Bench, rusqlite::Connection) {
    let clock = ManualClock::at(Bench::START);
    let settings = SqlSettings { key_ttl_ms: 1_000, backlog_max: 1_000, ..SqlSettings::new(clock.clone()) };
    let ledger = SqlLedger::open_sqlite(directory, &settings).expect("a new ledger opens");
    let bench = Bench::new(Arc::new(ledger), clock);
    healthy(&bench).await;
    let vandal = rusqlite::Connection::open(directory.join("bowline.db")).expect("the file is there");
    (bench, vandal)
}

#[tokio::test]
async fn every_sort_of_damage_is_found_and_named() {
    for (number, what, damage) in DAMAGES {
        let directory = tempfile::tempdir().expect("a place for the ledger");
        let (bench, vandal) = ledger(directory.path()).await;
        assert_eq!(vandal.execute(damage, []).expect("the damage can be done"), 1, "{what}");
        let verified = bench.ledger.verify(10).await.expect("a ledger can be verified at any time");
        assert!(!verified.faults.is_empty(), "nobody noticed that {what}");
        let page = bench.ledger.list_jobs(bench.tenant, Default::default(), None, 10).await.expect("it can be read");
        let job = page.items.iter().find(|job| job.number == number).expect("the job is still there").id.to_string();
        let named = |fault: &String| fault.contains(&job) || fault.contains(&format!("#{number}"));
        assert!(verified.faults.iter().any(named), "{what}: {:?}", verified.faults);
        assert_eq!(bench.ledger.verify(1).await.expect("it can be verified").faults.len(), 1, "no more than asked for");
    }
}

#[tokio::test]
async fn what_is_left_of_a_job_that_is_not_there_is_found() {
    let directory = tempfile::tempdir().expect("a place for the ledger");
    let (bench, vandal) = ledger(directory.path()).await;
    for (_, damage) in LEFT {
        assert_eq!(vandal.execute(damage, []).expect("the damage can be done"), 1, "{damage}");
    }
    let faults = bench.ledger.verify(100).await.expect("a ledger can be verified at any time").faults;
    for (what, _) in LEFT {
        let found = faults.iter().filter(|fault| fault.starts_with(what) && fault.contains("#99")).count();
        assert_eq!(found, 1, "{what} is found once: {faults:?}");
    }
    assert_eq!(faults.len(), LEFT.len(), "{faults:?}");
}
