//! Messages and deaths: the server dies between the commit and the acknowledgement; the database is away while messages come.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use bowline_testkit::{Postgres, shared_rabbitmq, until};
use serde_json::json;

use crate::support::queue::{BROKER_ALLOWED, TestQueue, broker_documents};
use crate::support::{Setup, TestServer};

const MESSAGES: usize = 8;

/// How many jobs each message has.
async fn jobs_of(server: &TestServer) -> BTreeMap<String, usize> {
    let mut jobs = BTreeMap::new();
    for job in server.jobs().await {
        let shown = server.get(&format!("/jobs/{}", job["id"].as_str().expect("an id"))).await.expect(200);
        let message = shown["job"]["payload"]["message"].clone();
        *jobs.entry(message["message_id"].as_str().expect("an id").to_owned()).or_default() += 1;
    }
    jobs
}

fn once_each() -> BTreeMap<String, usize> {
    (0..MESSAGES).map(|n| (format!("m{n}"), 1)).collect()
}

async fn fill(queue: &TestQueue) {
    for n in 0..MESSAGES {
        queue.publish(Some(&format!("m{n}")), None, n.to_string().as_bytes()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_job_was_stored_and_not_acknowledged_starts_no_second_one() {
    let address = shared_rabbitmq();
    let queue = TestQueue::on(&address).await;
    fill(&queue).await;
    let env = vec![("BOWLINE_FAILPOINT".to_owned(), "after_commit:submit:3".to_owned())];
    let mut server = TestServer::with(Setup { env, config: BROKER_ALLOWED.to_owned(), ..Setup::default() }).await;
    // One at a time, so that the third commit is the third message.
    let mut trigger = queue.trigger(json!({"type": "echo"}));
    trigger["rabbitmq"]["prefetch"] = json!(1);
    let mut documents = broker_documents(&server, &address);
    documents.push(json!({"kind": "trigger", "name": "orders", "spec": trigger}));
    server.post("/apply", json!({"documents": documents})).await.expect(200);
    let status = server.child().wait_exit(Duration::from_secs(60)).await;
    assert_eq!(status.signal(), Some(libc::SIGABRT), "it died at its own hand: {status}");
    until(Duration::from_secs(30), "the broker has taken back what was in hand", async || {
        let waiting = queue.waiting().await;
        // Two were acknowledged; the third was stored, and is here again.
        if waiting as usize == MESSAGES - 2 { Ok(()) } else { Err(waiting) }
    })
    .await;
    server.start_again_unharmed().await;
    until(Duration::from_secs(60), "all messages were taken", async || {
        let jobs = jobs_of(&server).await;
        if jobs.len() == MESSAGES && queue.waiting().await == 0 { Ok(()) } else { Err(jobs) }
    })
    .await;
    let shown = until(Duration::from_secs(30), "all were delivered again", async || {
        let shown = server.get("/triggers/orders").await.expect(200);
        if shown["here"]["delivered"] == MESSAGES - 2 { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await;
    // The evidence: one of them found its job.
    assert_eq!(
        (&shown["here"]["replayed"], &shown["here"]["started"], &shown["here"]["refused"]),
        (&json!(1), &json!(MESSAGES - 3), &json!(0)),
        "{shown}"
    );
    assert_eq!(jobs_of(&server).await, once_each());
    assert_eq!(queue.take_dead().await, None);
    assert!(server.stop().await.success());
    assert_eq!(queue.waiting().await, 0, "everything was acknowledged");
    server.assert_verified();
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_come_while_the_database_is_away_are_started_when_it_is_back() {
    let address = shared_rabbitmq();
    let (queue, postgres) = (TestQueue::on(&address).await, Postgres::start());
    let database_url = Some(postgres.create_database());
    let setup = Setup { database_url, config: BROKER_ALLOWED.to_owned(), ..Setup::default() };
    let mut server = TestServer::with(setup).await;
    let mut documents = broker_documents(&server, &address);
    let trigger = queue.trigger(json!({"type": "echo"}));
    documents.push(json!({"kind": "trigger", "name": "orders", "spec": trigger}));
    server.post("/apply", json!({"documents": documents})).await.expect(200);
    until(Duration::from_secs(60), "the queue is read", async || {
        server.get("/triggers/orders").await.body["here"]["reading_since"].is_string()
    })
    .await;
    postgres.stop_immediate();
    fill(&queue).await;
    // The evidence: every message was in hand and could not be stored.
    until(Duration::from_secs(60), "all messages are held", async || {
        let log = server.child().log();
        let holds = |line: &&str| line.contains("holding a message of a trigger") && line.contains("orders");
        let lines: Vec<&str> = log.lines().filter(holds).collect();
        let is_held = |n: &usize| lines.iter().any(|line| line.contains(&format!("\"message.id\":\"m{n}\"")));
        let held = (0..MESSAGES).filter(is_held).count();
        if held == MESSAGES { Ok(()) } else { Err(held) }
    })
    .await;
    assert_eq!(queue.waiting().await, 0, "none was given back");
    // A while of asking in vain.
    tokio::time::sleep(Duration::from_secs(3)).await;
    postgres.start_again();
    server.until_ready().await;
    until(Duration::from_secs(60), "all are started", async || {
        let shown = server.get("/triggers/orders").await.expect(200);
        let here = &shown["here"];
        let taken = here["started"].as_u64().unwrap_or(0) + here["replayed"].as_u64().unwrap_or(0);
        if taken == MESSAGES as u64 { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
    assert_eq!(jobs_of(&server).await, once_each());
    assert_eq!(queue.take_dead().await, None);
    assert!(server.stop().await.success());
    assert_eq!(queue.waiting().await, 0, "everything was acknowledged");
    server.assert_verified();
}
