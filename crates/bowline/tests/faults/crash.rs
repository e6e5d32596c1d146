//! F01: the server is killed under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bowline_testkit::{fresh_database, until};
use serde_json::json;

use crate::support::oracle::{Journal, accounted, begun_once};
use crate::support::{Caller, SHORT_LEASES, Setup, TestServer};

/// Submits with unique keys until told to stop; remembers what was answered.
async fn press(caller: Caller, writer: usize, stop: Arc<AtomicBool>, asked: Arc<AtomicU64>) -> Journal {
    let mut journal = Journal::new();
    let mut n = 0;
    while !stop.load(Ordering::SeqCst) {
        n += 1;
        let key = format!("{writer}-{n}");
        asked.fetch_add(1, Ordering::SeqCst);
        match caller.submit(&key, json!({"type": "noop"})).await {
            Ok(answer) if answer.status == 202 => {
                journal.insert(key, answer.body["job_id"].as_str().expect("a job id").to_owned());
            }
            // The pace of a caller whose server is away.
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    journal
}

async fn kill_nine_loses_nothing(setup: Setup, embedded: bool) {
    let mut server = TestServer::with(setup).await;
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::new(AtomicU64::new(0));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8 {
        writers.spawn(press(server.caller(), writer, Arc::clone(&stop), Arc::clone(&asked)));
    }
    let mut pids = std::collections::BTreeSet::new();
    for cycle in 1..=5u64 {
        // Work is in flight when it happens.
        let before = asked.load(Ordering::SeqCst);
        until(Duration::from_secs(20), "requests are flowing", async || {
            asked.load(Ordering::SeqCst) > before + 100 * cycle
        })
        .await;
        pids.insert(server.child().pid());
        server.kill_9();
        server.start_again().await;
    }
    assert_eq!(pids.len(), 5, "five servers were killed");
    let before = asked.load(Ordering::SeqCst);
    until(Duration::from_secs(20), "requests flow again", async || asked.load(Ordering::SeqCst) > before + 100).await;
    stop.store(true, Ordering::SeqCst);
    let mut journal = Journal::new();
    while let Some(done) = writers.join_next().await {
        journal.extend(done.expect("a writer ends well"));
    }
    assert!(journal.len() > 500, "{} jobs were acknowledged", journal.len());
    server.until_idle(Duration::from_secs(60)).await;
    // C1: every acknowledged job is there and ended well; C9: asking again under its key gives the same one.
    accounted(&journal, &server.jobs().await).expect("what was acknowledged is there");
    for (key, job) in &journal {
        let again = server.post("/jobs", json!({"type": "noop", "idempotency_key": key})).await.expect(202);
        assert_eq!(&again["job_id"], job, "key {key}");
        assert_eq!(again["status"], "success", "key {key}");
        assert_eq!(again["idempotency"]["replayed"], true, "key {key}");
    }
    if embedded {
        assert!(server.stop().await.success());
    }
    server.assert_verified();
}

#[tokio::test]
async fn kill_nine_under_load_loses_nothing_and_doubles_nothing_embedded() {
    kill_nine_loses_nothing(Setup::default(), true).await;
}

#[tokio::test]
async fn kill_nine_under_load_loses_nothing_and_doubles_nothing_on_postgresql() {
    let database = fresh_database();
    let setup =
        Setup { database_url: Some(database.url().to_owned()), config: SHORT_LEASES.to_owned(), ..Setup::default() };
    kill_nine_loses_nothing(setup, false).await;
}

#[tokio::test]
async fn runs_that_were_cut_off_are_tried_again() {
    let mut server = TestServer::start().await;
    let job = server.submit(json!({"type": "sleep", "payload": {"ms": 1500}})).await;
    server.until_status(&job, "running").await;
    server.kill_9();
    server.start_again().await;
    let shown = server.until_status(&job, "success").await;
    let runs = shown["runs"].as_array().expect("runs");
    assert_eq!(runs[0]["status"], "lost");
    assert_eq!(runs.last().expect("a run")["status"], "success");
    assert_ne!(runs[0]["id"], runs[1]["id"], "a retry is a new run");
    assert!(begun_once(&shown).is_err(), "and it is not taken for one that was never cut off");
    assert!(server.stop().await.success());
    server.assert_verified();
}

/// The control: a ledger in which an acknowledged job is missing, or has a double, or has lost a step of its story.
#[tokio::test]
async fn a_ledger_that_was_tampered_with_is_found_out() {
    let mut server = TestServer::start().await;
    let mut journal = Journal::new();
    for key in ["a", "b", "c"] {
        journal.insert(key.to_owned(), server.caller().submit_surely(key, json!({"type": "noop"})).await);
    }
    server.until_idle(Duration::from_secs(20)).await;
    let jobs = server.jobs().await;
    accounted(&journal, &jobs).expect("nothing is missing yet");
    let mut double = jobs[0].clone();
    double["id"] = json!("another");
    assert!(accounted(&journal, &[jobs, vec![double]].concat()).is_err(), "a double");

    assert!(server.stop().await.success());
    server.assert_verified();
    let file = rusqlite::Connection::open(server.data_dir().join("bowline.db")).expect("the ledger's file");
    assert_eq!(file.execute("delete from job where number = 2", []).expect("a job goes"), 1);
    file.execute("delete from event where number = 3 and kind = 'job_started'", []).expect("an event goes");
    drop(file);
    assert_eq!(server.verify()["ok"], false, "the story of the third job has a gap");
    server.start_again().await;
    let missing = accounted(&journal, &server.jobs().await).expect_err("an acknowledged job is missing");
    assert!(missing.contains("is not there"), "{missing}");
}
