//! F02: the server dies between the commit and everything that follows from it.
//!
//! The change is stored; no bell has rung, nobody was answered, nothing was handed over. What follows from a state is derived
//! from it, so the next start must make up for all of it: nothing is lost, nothing is done under a second name.
//! (`store-sql/src/failpoint.rs` says how it is made to die there.)

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use bowline_testkit::{Sink, fresh_database};
use serde_json::json;

use crate::support::oracle::{Journal, accounted, one_effect};
use crate::support::{SHORT_LEASES, Setup, TestServer};

const JOBS: usize = 6;

/// Dies after the third commit of this sort, with a client and a worker in the middle of things.
async fn dies_after(sort: &str, database_url: Option<String>) {
    let embedded = database_url.is_none();
    let sink = Sink::start();
    let env = vec![("BOWLINE_FAILPOINT".to_owned(), format!("after_commit:{sort}:3"))];
    let setup = Setup { config: SHORT_LEASES.to_owned(), env, database_url, ..Setup::default() };
    let mut server = TestServer::with(setup).await;
    let token = server.token(json!({"kind": "worker", "name": "w1"})).await;
    let worker = server.worker_process("w1", &token);
    let (caller, url) = (server.caller(), sink.url());
    let client = async {
        let mut journal = Journal::new();
        for key in (0..JOBS).map(|n| n.to_string()) {
            let job = caller.submit_surely(&key, json!({"type": "call", "payload": {"url": url}})).await;
            journal.insert(key, job);
        }
        journal
    };
    let death = async {
        let status = server.child().wait_exit(Duration::from_secs(30)).await;
        assert_eq!(status.signal(), Some(libc::SIGABRT), "it died at its own hand: {status}");
        server.start_again_unharmed().await;
    };
    let (journal, ()) = tokio::join!(client, death);
    assert!(worker.is_running(), "workers outlive their server");
    for job in journal.values() {
        let shown = server.until_status(job, "success").await;
        one_effect(&shown, &sink.lines()).expect("one effect");
    }
    let jobs = server.jobs().await;
    accounted(&journal, &jobs).expect("everything promised is there once");
    assert_eq!((jobs.len(), sink.by_key().len()), (JOBS, JOBS));
    // The control: a promise that was not kept.
    assert!(accounted(&journal, &jobs[1..]).is_err());
    worker.kill_9();
    if embedded {
        assert!(server.stop().await.success());
    }
    server.assert_verified();
}

#[tokio::test]
async fn a_stored_submission_that_nobody_was_told_of_is_found_under_its_key() {
    dies_after("submit", None).await;
}

#[tokio::test]
async fn a_stored_hand_out_that_nobody_got_returns() {
    dies_after("claim", None).await;
}

#[tokio::test]
async fn a_stored_hand_out_that_nobody_got_returns_on_postgresql() {
    let database = fresh_database();
    dies_after("claim", Some(database.url().to_owned())).await;
}

#[tokio::test]
async fn a_stored_acceptance_that_nobody_heard_of_holds() {
    dies_after("heartbeat", None).await;
}

#[tokio::test]
async fn a_stored_result_whose_worker_was_not_told_is_not_taken_twice() {
    dies_after("report", None).await;
}
