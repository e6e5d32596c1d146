//! F28, F29: asked to stop under load; asked twice; asked while the database hangs.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::oracle::begun_once;
use crate::support::{Setup, TestServer};

#[tokio::test]
async fn sigterm_finishes_what_is_in_hand_and_exits_well() {
    let mut server = TestServer::start().await;
    let slow = server.submit(json!({"type": "sleep", "payload": {"ms": 1500}})).await;
    server.until_status(&slow, "running").await;
    let jobs: Vec<_> = (0..500).map(|_| json!({"type": "noop"})).collect();
    server.post("/jobs/batch", json!({"jobs": jobs})).await.expect(202);
    let started = Instant::now();
    let status = server.stop().await;
    assert!(status.success(), "{status}");
    assert!(started.elapsed() < Duration::from_secs(30));
    server.assert_verified();
    server.start_again().await;
    let shown = server.until_status(&slow, "success").await;
    begun_once(&shown).expect("it finished before the server left");
    server.until_idle(Duration::from_secs(30)).await;
}

/// The control: what the same work looks like when the server does not let it finish.
#[tokio::test]
async fn a_server_that_does_not_wait_is_found_out() {
    let mut server =
        TestServer::with(Setup { config: "[server]\nclose_ms = 1\n".to_owned(), ..Setup::default() }).await;
    let slow = server.submit(json!({"type": "sleep", "payload": {"ms": 1500}})).await;
    server.until_status(&slow, "running").await;
    assert!(!server.stop().await.success(), "it says that something was left behind");
    server.start_again().await;
    assert!(begun_once(&server.until_status(&slow, "success").await).is_err());
}

#[tokio::test]
async fn a_second_signal_insists() {
    let mut server = TestServer::start().await;
    let slow = server.submit(json!({"type": "sleep", "payload": {"ms": 600000}})).await;
    server.until_status(&slow, "running").await;
    server.child().term();
    bowline_testkit::until(Duration::from_secs(10), "the server is closing", async || {
        match server.try_send("GET", "/readyz", None, None).await {
            Ok(answer) if answer.status == 503 => Ok(()),
            Ok(answer) => Err(format!("{}", answer.status)),
            // The door is closed already.
            Err(_) => Ok(()),
        }
    })
    .await;
    server.child().term();
    let status = server.child().wait_exit(Duration::from_secs(10)).await;
    assert!(!status.success(), "it says that something was left behind");
    server.start_again().await;
    server.post(&format!("/jobs/{slow}/cancel"), json!({})).await.expect(200);
    server.until_status(&slow, "canceled").await;
    assert!(server.stop().await.success());
    server.assert_verified();
}

/// What serves orchestrators (systemd, Kubernetes) kills a process that takes longer than it said.
#[tokio::test]
async fn a_hung_database_does_not_make_the_exit_longer_than_promised() {
    let postgres = bowline_testkit::Postgres::start();
    let setup = Setup {
        database_url: Some(postgres.create_database()),
        config: "[server]\nfarewell_ms = 200\nclose_ms = 3000\n".to_owned(),
        ..Setup::default()
    };
    let server = TestServer::with(setup).await;
    let slow = server.submit(json!({"type": "sleep", "payload": {"ms": 600000}})).await;
    server.until_status(&slow, "running").await;
    postgres.freeze();
    let asked = Instant::now();
    server.child().term();
    let status = server.child().wait_exit(Duration::from_secs(30)).await;
    let took = asked.elapsed();
    postgres.thaw();
    assert!(!status.success(), "it says that something was left behind");
    // The rest is for a busy machine; before, three to five seconds came on top.
    assert!(took < Duration::from_millis(3_200 + 1_500), "{took:?}\n{}", server.child().log());
    assert!(server.child().log().contains("does not answer"), "the database did hang: {}", server.child().log());
}
