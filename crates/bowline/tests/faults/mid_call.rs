//! F05: a worker is killed while it waits for the answer to its effect.
//!
//! Whether the effect happened, nobody on our side knows. The next holder must be able to ask again without doing it twice: it
//! has the same key, and a higher fence.

use std::time::Duration;

use bowline_testkit::{Sink, until};
use serde_json::json;

use crate::support::oracle::one_effect;
use crate::support::{SHORT_LEASES, Setup, TestServer};

#[tokio::test]
async fn the_next_holder_sends_the_same_key_with_a_higher_fence() {
    let sink = Sink::start();
    sink.delay(Duration::from_secs(2));
    let mut server = TestServer::with(Setup { config: SHORT_LEASES.to_owned(), ..Setup::default() }).await;
    let first = server.token(json!({"kind": "worker", "name": "first"})).await;
    let heir = server.token(json!({"kind": "worker", "name": "heir"})).await;
    let first = server.worker_process("first", &first);
    let job = server.submit(json!({"type": "call", "payload": {"url": sink.url()}})).await;
    // The receiver writes a call down before it answers, so from here on the call is under way for two seconds.
    until(Duration::from_secs(20), "the call has arrived", async || !sink.lines().is_empty()).await;
    first.kill_9();
    let _heir = server.worker_process("heir", &heir);
    let shown = server.until_status(&job, "success").await;

    let lines = sink.lines();
    one_effect(&shown, &lines).expect("one effect");
    assert_eq!(sink.by_key().into_iter().collect::<Vec<_>>(), [(job.clone(), 2)], "two calls, one key");
    assert_eq!(shown["job"]["result"], json!({"by": "heir"}));
    let runs: Vec<_> = shown["runs"].as_array().expect("runs").iter().map(|r| (&r["status"], &r["fence"])).collect();
    assert_eq!(runs, [(&json!("lost"), &json!(1)), (&json!("success"), &json!(2))]);

    // The control: the same story with a key for each attempt, without a call, without growing fences, with two results.
    let mut careless = lines.clone();
    careless[1].idempotency_key = Some("a key of its own".to_owned());
    assert!(one_effect(&shown, &careless).is_err());
    assert!(one_effect(&shown, &[]).is_err());
    assert!(one_effect(&shown, &[lines[1].clone(), lines[0].clone()]).is_err());
    let mut doubled = shown.clone();
    doubled["runs"][0]["status"] = json!("success");
    assert!(one_effect(&doubled, &lines).is_err());

    assert!(server.stop().await.success());
    server.assert_verified();
}
