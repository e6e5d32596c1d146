//! F08, F31: PostgreSQL is there, but slow, locked, or frozen. Worse than away: nothing breaks, everything waits.
//!
//! Callers must not wait with it. They hear yes or "come back later" soon, whoever was at work is not called lost, and when
//! the database is itself again everything that was asked for is there once.

use std::time::{Duration, Instant};

use bowline_testkit::{ChaosProxy, Postgres, until};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::oracle::{Journal, accounted, answered_well, begun_once};
use crate::support::{Answer, SHORT_LEASES, Setup, TestServer};

/// Longer than one statement may take, twice the lease, and short enough for a test.
const FAULT: Duration = Duration::from_secs(8);
const CALLERS: usize = 30;

/// A server with work in flight, remote and built in, behind a proxy that counts its connections.
struct House {
    postgres: Postgres,
    /// Past the proxy.
    direct: String,
    proxy: ChaosProxy,
    server: TestServer,
    worker: String,
    run: Value,
    jobs: [String; 2],
}

/// What was seen while it lasted.
struct Seen {
    slowest: Duration,
    refused: usize,
    connections: u64,
    /// Who was refused has an empty job.
    journal: Journal,
}

async fn house() -> House {
    let postgres = Postgres::start();
    let direct = postgres.create_database();
    let proxy = ChaosProxy::start(&direct);
    let setup =
        Setup { database_url: Some(proxy.url().to_owned()), config: SHORT_LEASES.to_owned(), ..Setup::default() };
    let server = TestServer::with(setup).await;
    let worker = server.worker("w1", &["long"]).await;
    let remote = server.submit(json!({"type": "long"})).await;
    let task = server.send("GET", "/workers/w1/tasks?wait=5000", &worker, None).await.expect(200)[0].clone();
    let run = task["task_id"].clone();
    let beat = json!({"runs": [run]});
    server.send("POST", "/workers/w1/heartbeat", &worker, Some(beat)).await.expect(200);
    let inside = server.submit(json!({"type": "sleep", "payload": {"ms": 4000}})).await;
    server.until_status(&inside, "running").await;
    House { postgres, direct, proxy, server, worker, run, jobs: [remote, inside] }
}

impl House {
    /// Presses on while the fault lasts: callers with keys of their own, and a worker that keeps its lease.
    async fn press(&self) -> Seen {
        let (began, before) = (Instant::now(), self.proxy.connections());
        let mut callers = JoinSet::new();
        for n in 0..CALLERS {
            let caller = self.server.caller();
            callers.spawn(async move {
                let mut answers = Vec::new();
                while began.elapsed() < FAULT {
                    let key = format!("{n}-{}", answers.len());
                    let asked = Instant::now();
                    let answer = caller.submit(&key, json!({"type": "noop"})).await.expect("an answer");
                    answers.push((key, answer, asked.elapsed()));
                    // The pace of a caller, not a wait.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                answers
            });
        }
        while began.elapsed() < FAULT {
            let asked = Instant::now();
            let beat = json!({"runs": [self.run]});
            let answer = self.server.send("POST", "/workers/w1/heartbeat", &self.worker, Some(beat)).await;
            answered_well(&answer, asked.elapsed()).expect("a heartbeat");
            // The pace of a worker, not a wait.
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let mut seen = Seen { slowest: Duration::ZERO, refused: 0, connections: 0, journal: Journal::new() };
        while let Some(answers) = callers.join_next().await {
            for (key, answer, took) in answers.expect("a caller ends well") {
                answered_well(&answer, took).expect("a submission");
                seen.slowest = seen.slowest.max(took);
                let promised = answer.body["job_id"].as_str().unwrap_or("");
                seen.refused += usize::from(promised.is_empty());
                seen.journal.insert(key, promised.to_owned());
            }
        }
        seen.connections = self.proxy.connections() - before;
        seen
    }

    /// The fault is over. Callers who were refused ask again; then everything must be as if nothing had been.
    async fn converges(&self, mut seen: Seen) {
        let server = &self.server;
        server.until_ready().await;
        let beat = json!({"runs": [self.run]});
        until(Duration::from_secs(20), "the heartbeat is heard", async || {
            let answer = server.send("POST", "/workers/w1/heartbeat", &self.worker, Some(beat.clone())).await;
            if answer.body["renewed"] == json!([self.run]) { Ok(()) } else { Err(answer.body.to_string()) }
        })
        .await;
        let done = json!({"task_id": self.run, "status": "success"});
        server.send("POST", "/tasks/result", &self.worker, Some(done)).await.expect(200);
        for (key, job) in &mut seen.journal {
            let promised = server.caller().submit_surely(key, json!({"type": "noop"})).await;
            assert!(job.is_empty() || *job == promised, "key {key} was {job}, and is {promised}");
            *job = promised;
        }
        server.until_idle(Duration::from_secs(30)).await;
        accounted(&seen.journal, &server.jobs().await).expect("everything asked for is there once");
        for job in &self.jobs {
            begun_once(&server.until_status(job, "success").await).expect("nobody was given up");
        }
        let metrics = server.get("/metrics").await;
        let text = metrics.body.as_str().unwrap_or("");
        assert!(text.contains("orchestrator_runs_lost_total 0"), "{text}");
        // A storm would be a connection for every caller, or one after the other as fast as they fail.
        assert!(seen.connections < 60, "{} connections were opened", seen.connections);
        assert!(self.proxy.open_connections() <= 10, "{} connections are open", self.proxy.open_connections());
        server.assert_verified();
    }
}

#[tokio::test]
async fn a_slow_database_makes_callers_wait_a_little_and_then_come_back() {
    let house = house().await;
    // Two seconds for every question and its answer.
    house.proxy.latency(Duration::from_secs(1));
    let seen = house.press().await;
    assert!(seen.slowest > Duration::from_secs(2), "the slowness was not felt: {:?}", seen.slowest);
    house.proxy.heal();
    house.converges(seen).await;
}

#[tokio::test]
async fn a_locked_table_makes_callers_wait_a_little_and_then_come_back() {
    let house = house().await;
    let side = bowline_testkit::connect(&house.direct).await.expect("a side session");
    side.batch_execute("begin; lock table job, lease in access exclusive mode").await.expect("the lock");
    let seen = house.press().await;
    assert!(seen.refused > 0, "the lock was not felt");
    let waiting =
        "select count(*) from pg_stat_activity where application_name = 'bowline' and wait_event_type = 'Lock'";
    let waiting: i64 = side.query_one(waiting, &[]).await.expect("a count").get(0);
    assert!(waiting <= 8, "{waiting} sessions wait for the lock, most of them for nobody");
    side.batch_execute("rollback").await.expect("the lock goes");
    house.converges(seen).await;
}

#[tokio::test]
async fn a_frozen_database_is_like_one_that_is_away() {
    let house = house().await;
    house.postgres.freeze();
    let seen = house.press().await;
    assert!(seen.refused > CALLERS, "{} refusals", seen.refused);
    assert!(seen.journal.values().all(String::is_empty), "nothing is promised by a frozen ledger");
    let ready = house.server.try_send("GET", "/readyz", None, None).await.expect("an answer");
    assert_eq!(ready.status, 503);
    assert_eq!(house.server.try_send("GET", "/healthz", None, None).await.expect("an answer").status, 200);
    // Everything else waits for the ledger; whoever watches the server does not.
    let metrics = house.server.get("/metrics").await.expect(200);
    assert!(metrics.as_str().is_some_and(|text| text.contains("orchestrator_degraded 1")), "{metrics}");
    assert_eq!(house.server.get("/lanes").await.status, 503);
    house.postgres.thaw();
    house.converges(seen).await;
}

#[test]
fn a_hang_an_error_and_a_refusal_without_a_time_are_complained_about() {
    let answer = |status, retry_after: Option<&str>| Answer {
        status,
        body: Value::Null,
        retry_after: retry_after.map(str::to_owned),
    };
    let (soon, late) = (Duration::from_secs(1), Duration::from_secs(7));
    answered_well(&answer(202, None), soon).expect("a yes");
    answered_well(&answer(503, Some("1")), soon).expect("a later");
    assert!(answered_well(&answer(202, None), late).is_err());
    assert!(answered_well(&answer(503, Some("1")), late).is_err());
    assert!(answered_well(&answer(503, None), soon).is_err());
    assert!(answered_well(&answer(500, None), soon).is_err());
    let lost = json!({"runs": [{"status": "lost"}, {"status": "success"}]});
    assert!(begun_once(&lost).is_err());
}
