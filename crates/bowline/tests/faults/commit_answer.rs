//! F09: the answer to COMMIT is lost, on the way to the server that waits for it.

use std::collections::BTreeSet;
use std::time::Duration;

use bowline_testkit::{ChaosProxy, Postgres};
use serde_json::json;

use crate::support::{SHORT_LEASES, Setup, TestServer};

#[tokio::test]
async fn a_lost_commit_answer_loses_nothing_and_doubles_nothing() {
    let postgres = Postgres::start();
    let url = postgres.create_database();
    let proxy = ChaosProxy::start(&url);
    let setup =
        Setup { database_url: Some(proxy.url().to_owned()), config: SHORT_LEASES.to_owned(), ..Setup::default() };
    let server = TestServer::with(setup).await;
    let mut jobs = BTreeSet::new();
    for round in 0..20 {
        if round % 2 == 0 {
            proxy.drop_next_commit_answers(1);
        } else {
            proxy.fail_next_commits(1);
        }
        for n in 0..5 {
            let body = json!({"type": "noop", "idempotency_key": format!("{round}-{n}")});
            // What a careful client does: the same key until it is answered.
            let mut tries = 0;
            let job = loop {
                tries += 1;
                assert!(tries < 50, "never answered");
                let answer = server.post("/jobs", body.clone()).await;
                match answer.status {
                    202 => break answer.body["job_id"].as_str().expect("a job id").to_owned(),
                    503 => tokio::time::sleep(Duration::from_millis(50)).await,
                    other => panic!("answered {other}: {}", answer.body),
                }
            };
            assert!(jobs.insert(job), "two keys gave one job");
        }
    }
    assert!(proxy.commit_answers_dropped() >= 5, "{} answers were dropped", proxy.commit_answers_dropped());
    assert!(proxy.commits_failed() >= 5, "{} commits failed", proxy.commits_failed());
    proxy.heal();
    server.until_idle(Duration::from_secs(60)).await;
    for job in &jobs {
        server.until_status(job, "success").await;
    }
    let client = bowline_testkit::connect(&url).await.expect("the oracle connects");
    let count: i64 = client.query_one("select count(*) from job", &[]).await.expect("a count").get(0);
    assert_eq!(count, 100, "each key made one job");
    server.assert_verified();
}
