//! The private server keeps what was committed, can be stopped, frozen and started again, and leaves nothing behind.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bowline_testkit::{Child, Postgres, connect, fresh_database, until};

const SOON: Duration = Duration::from_secs(20);

async fn count(url: &str) -> i64 {
    let client = connect(url).await.expect("the server takes connections");
    client.query_one("select count(*) from t", &[]).await.expect("the table is there").get(0)
}

fn is_alive(pid: u32) -> bool {
    // A zombie has no command line any more.
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

#[tokio::test]
async fn a_crash_and_a_new_start_keep_what_was_committed() {
    let server = Postgres::start();
    let client = connect(&server.url()).await.unwrap();
    client.batch_execute("create table t (n int); insert into t values (1)").await.unwrap();
    client.batch_execute("begin; insert into t values (2)").await.unwrap();
    let first_pid = server.pid();

    server.stop_immediate();
    assert!(!is_alive(first_pid));
    client.batch_execute("commit").await.unwrap_err();
    connect(&server.url()).await.expect_err("a stopped server takes no connections");

    server.start_again();
    assert_ne!(server.pid(), first_pid);
    assert_eq!(count(&server.url()).await, 1);
    assert!(server.log().contains("automatic recovery in progress"), "{}", server.log());
}

#[tokio::test]
async fn durability_is_the_default_and_settings_are_settable() {
    let server = Postgres::options().setting("max_connections", "7").start();
    let client = connect(&server.url()).await.unwrap();
    for (setting, expected) in [("fsync", "on"), ("synchronous_commit", "on"), ("max_connections", "7")] {
        let row = client.query_one("select current_setting($1)", &[&setting]).await.unwrap();
        assert_eq!(row.get::<_, String>(0), expected, "{setting}");
    }
}

#[tokio::test]
async fn a_frozen_server_is_silent_and_a_thawed_one_answers_late() {
    let server = Postgres::start();
    let client = connect(&server.url()).await.unwrap();
    server.freeze();
    let query = client.simple_query("select 1");
    tokio::pin!(query);
    let silence = tokio::time::timeout(Duration::from_millis(300), &mut query).await;
    assert!(silence.is_err(), "a frozen server must not answer");
    // New connections hang too, instead of being refused.
    assert!(tokio::time::timeout(Duration::from_millis(300), connect(&server.url())).await.is_err());
    server.thaw();
    query.await.unwrap();
}

#[test]
fn a_frozen_server_can_be_stopped_and_dropped() {
    let server = Postgres::start();
    let pid = server.pid();
    server.freeze();
    let before = Instant::now();
    server.stop_immediate();
    assert!(!is_alive(pid));
    server.start_again();
    server.freeze();
    let pid = server.pid();
    drop(server);
    assert!(!is_alive(pid));
    assert!(before.elapsed() < Duration::from_secs(15), "took {:?}", before.elapsed());
}

#[tokio::test]
async fn databases_on_one_server_do_not_see_each_other() {
    let server = Postgres::start();
    let (one, other) = (server.create_database(), server.create_database());
    connect(&one).await.unwrap().batch_execute("create table t (n int)").await.unwrap();
    connect(&other).await.unwrap().batch_execute("create table t (n int); insert into t values (1)").await.unwrap();
    assert_eq!((count(&one).await, count(&other).await), (0, 1));
}

#[tokio::test]
async fn a_fresh_database_is_empty_and_usable() {
    let database = fresh_database();
    let client = connect(database.url()).await.unwrap();
    let tables = client.query("select 1 from pg_tables where schemaname = 'public'", &[]).await.unwrap();
    assert!(tables.is_empty());
    client.batch_execute("create table t (n int)").await.unwrap();
    assert_eq!(count(database.url()).await, 0);
}

/// Not a test of its own: it is the process that the next two tests kill. Prints what it started, then waits.
#[test]
#[ignore = "run by the tests that kill it"]
fn victim() {
    let Ok(task) = std::env::var("BOWLINE_TEST_VICTIM") else { return };
    let server = Postgres::start();
    if task == "freeze" {
        server.freeze();
    }
    println!("postmaster={}\n", server.pid());
    loop {
        std::thread::park();
    }
}

/// Starts the victim, kills it without a warning, and returns the postmaster it had.
async fn kill_a_test_with_a_server(task: &str, temporary: &Path) -> u32 {
    let mut command = Command::new(std::env::current_exe().expect("a test knows its own file"));
    command.args(["--ignored", "--exact", "victim", "--nocapture"]);
    command.env("BOWLINE_TEST_VICTIM", task).env("TMPDIR", temporary);
    let victim = Child::spawn(command, "victim");
    let pid: u32 = until(SOON, "the victim's server", async || {
        victim.stdout().split_once("postmaster=")?.1.split_once('\n')?.0.parse().ok()
    })
    .await;
    assert!(is_alive(pid));
    victim.kill_9();
    pid
}

#[tokio::test]
async fn the_server_dies_with_a_test_that_is_killed() {
    // A temporary directory of its own, so that no test nearby can sweep the server away and hide that it lived on.
    let secluded = tempfile::tempdir().unwrap();
    std::fs::set_permissions(secluded.path(), Permissions::from_mode(0o711)).unwrap();
    let pid = kill_a_test_with_a_server("run", secluded.path()).await;
    until(SOON, "the postmaster's death", async || !is_alive(pid)).await;
}

#[tokio::test]
async fn the_next_start_sweeps_what_a_killed_test_left_behind() {
    let pid = kill_a_test_with_a_server("freeze", &std::env::temp_dir()).await;
    let data = std::fs::read_link(format!("/proc/{pid}/cwd")).ok();
    let _server = Postgres::start();
    until(SOON, "the end of the frozen postmaster", async || !is_alive(pid)).await;
    if let Some(data) = data {
        assert!(!data.exists(), "{} was left behind", data.display());
    }
}
