//! F09: the answer to COMMIT is lost, on the way to the server that waits for it.

use std::time::Duration;

use bowline_testkit::{ChaosProxy, Postgres};
use serde_json::json;

use crate::support::oracle::{Journal, accounted};
use crate::support::{SHORT_LEASES, Setup, TestServer};

#[tokio::test]
async fn a_lost_commit_answer_loses_nothing_and_doubles_nothing() {
    let postgres = Postgres::start();
    let url = postgres.create_database();
    let proxy = ChaosProxy::start(&url);
    let setup =
        Setup { database_url: Some(proxy.url().to_owned()), config: SHORT_LEASES.to_owned(), ..Setup::default() };
    let server = TestServer::with(setup).await;
    let mut journal = Journal::new();
    for round in 0..20 {
        if round % 2 == 0 {
            proxy.drop_next_commit_answers(1);
        } else {
            proxy.fail_next_commits(1);
        }
        for key in (0..5).map(|n| format!("{round}-{n}")) {
            let job = server.caller().submit_surely(&key, json!({"type": "noop"})).await;
            journal.insert(key, job);
        }
    }
    assert!(proxy.commit_answers_dropped() >= 5, "{} answers were dropped", proxy.commit_answers_dropped());
    assert!(proxy.commits_failed() >= 5, "{} commits failed", proxy.commits_failed());
    proxy.heal();
    server.until_idle(Duration::from_secs(60)).await;
    let jobs = server.jobs().await;
    accounted(&journal, &jobs).expect("every key made one job");
    let client = bowline_testkit::connect(&url).await.expect("the oracle connects");
    let count: i64 = client.query_one("select count(*) from job", &[]).await.expect("a count").get(0);
    assert_eq!(count, 100, "each key made one job");
    server.assert_verified();

    // The control: an acknowledged job that the ledger lost, and one that it has twice.
    let mut double = jobs[0].clone();
    double["id"] = json!("another");
    assert!(accounted(&journal, &[jobs, vec![double]].concat()).is_err());
    // By no fixed number: a transaction that failed leaves a gap among them.
    let gone = client.execute("delete from job where number = (select min(number) from job)", &[]).await;
    assert_eq!(gone.expect("the ledger answers"), 1, "a job goes");
    assert!(accounted(&journal, &server.jobs().await).is_err());
}
