//! The two ways a COMMIT can go wrong on the network, against a real server: the client sees the same, the table not.

use bowline_testkit::{ChaosProxy, TestDatabase, connect, fresh_database};
use tokio_postgres::Client;

async fn database_behind_a_proxy() -> (TestDatabase, ChaosProxy) {
    let database = fresh_database();
    let client = connect(database.url()).await.expect("the server takes connections");
    client.batch_execute("create table t (n int primary key)").await.expect("the database is empty");
    let proxy = ChaosProxy::start(database.url());
    (database, proxy)
}

async fn rows(database: &TestDatabase) -> i64 {
    let client = connect(database.url()).await.expect("the server takes connections");
    client.query_one("select count(*) from t", &[]).await.expect("the table is there").get(0)
}

/// As our own store does it: statements extended, COMMIT as a simple query.
async fn insert(proxy: &ChaosProxy, n: i32) -> Result<(), tokio_postgres::Error> {
    let mut client = connect(proxy.url()).await?;
    let transaction = client.transaction().await?;
    transaction.execute("insert into t values ($1)", &[&n]).await?;
    transaction.commit().await
}

/// COMMIT as a prepared statement.
async fn insert_extended(client: &Client, n: i32) -> Result<(), tokio_postgres::Error> {
    client.execute("begin", &[]).await?;
    client.execute("insert into t values ($1)", &[&n]).await?;
    client.execute("commit", &[]).await?;
    Ok(())
}

#[tokio::test]
async fn a_dropped_answer_leaves_the_row_committed_and_the_client_with_an_error() {
    let (database, proxy) = database_behind_a_proxy().await;
    insert(&proxy, 1).await.unwrap();
    proxy.drop_next_commit_answers(2);
    for n in [2, 3] {
        let error = insert(&proxy, n).await.unwrap_err();
        assert!(error.as_db_error().is_none(), "the server itself had no complaint: {error}");
    }
    insert(&proxy, 4).await.unwrap();
    assert_eq!(rows(&database).await, 4);
    assert_eq!((proxy.commit_answers_dropped(), proxy.commits_failed()), (2, 0));
}

#[tokio::test]
async fn a_failed_commit_leaves_no_row_and_the_client_with_an_error() {
    let (database, proxy) = database_behind_a_proxy().await;
    proxy.fail_next_commits(1);
    let error = insert(&proxy, 1).await.unwrap_err();
    assert!(error.as_db_error().is_none(), "{error}");
    assert_eq!((rows(&database).await, proxy.commits_failed()), (0, 1));
    insert(&proxy, 1).await.unwrap();
    assert_eq!((rows(&database).await, proxy.commits_failed(), proxy.commit_answers_dropped()), (1, 1, 0));
}

#[tokio::test]
async fn commits_of_the_extended_protocol_are_known_too() {
    let (database, proxy) = database_behind_a_proxy().await;
    let client = connect(proxy.url()).await.unwrap();
    insert_extended(&client, 1).await.unwrap();
    proxy.fail_next_commits(1);
    insert_extended(&client, 2).await.unwrap_err();
    assert_eq!(rows(&database).await, 1);

    let client = connect(proxy.url()).await.unwrap();
    proxy.drop_next_commit_answers(1);
    insert_extended(&client, 3).await.unwrap_err();
    assert_eq!(rows(&database).await, 2);
    assert_eq!((proxy.commit_answers_dropped(), proxy.commits_failed()), (1, 1));
}

#[tokio::test]
async fn pipelined_transactions_lose_only_the_answer_they_were_told_to() {
    let (database, proxy) = database_behind_a_proxy().await;
    let client = connect(proxy.url()).await.unwrap();
    let insert = client.prepare("insert into t values ($1)").await.unwrap();
    proxy.drop_next_commit_answers(1);
    let answers =
        tokio::join!(client.batch_execute("begin"), client.execute(&insert, &[&1]), client.batch_execute("commit"),);
    assert!(answers.0.is_ok() && answers.2.is_err());
    assert_eq!((rows(&database).await, proxy.commit_answers_dropped()), (1, 1));
}

#[tokio::test]
async fn a_commit_that_rolls_back_is_answered_and_the_fault_waits() {
    let (database, proxy) = database_behind_a_proxy().await;
    let client = connect(proxy.url()).await.unwrap();
    proxy.drop_next_commit_answers(1);
    client.batch_execute("begin").await.unwrap();
    client.batch_execute("no such statement").await.unwrap_err();
    client.batch_execute("commit").await.unwrap();
    assert_eq!(proxy.commit_answers_dropped(), 0);
    insert(&proxy, 1).await.unwrap_err();
    assert_eq!((rows(&database).await, proxy.commit_answers_dropped()), (1, 1));
}

#[tokio::test]
async fn healing_forgets_faults_that_were_still_to_come() {
    let (database, proxy) = database_behind_a_proxy().await;
    proxy.drop_next_commit_answers(5);
    proxy.fail_next_commits(5);
    proxy.heal();
    insert(&proxy, 1).await.unwrap();
    assert_eq!(rows(&database).await, 1);
}

#[test]
#[should_panic(expected = "is not a postgres:// URL")]
fn a_proxy_in_front_of_something_else_refuses_to_guess() {
    ChaosProxy::start("http://127.0.0.1:1").drop_next_commit_answers(1);
}
