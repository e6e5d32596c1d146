//! The runner gives a command a server, and takes both its exit code and the server home.

use std::process::Command;
use std::time::Duration;

use bowline_testkit::postgres::SERVER_VARIABLE;
use bowline_testkit::{Child, until};

const SOON: Duration = Duration::from_secs(60);

fn run(script: &str, server: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_with-postgres"));
    command.args(["sh", "-c", script]).env(SERVER_VARIABLE, server);
    Child::spawn(command, "with-postgres")
}

#[tokio::test]
async fn the_command_gets_a_server_and_its_exit_code_is_ours() {
    let runner = run("echo $BOWLINE_TEST_POSTGRES; exit 42", "");
    assert_eq!(runner.wait_exit(SOON).await.code(), Some(42));
    let url = runner.stdout().trim().to_owned();
    assert!(url.starts_with("postgres://postgres@127.0.0.1:"), "{url}");
    bowline_testkit::connect(&url).await.expect_err("the server must be gone with its command");
}

#[tokio::test]
async fn the_server_answers_while_the_command_runs_and_a_sigterm_is_passed_on() {
    let script = "trap 'exit 7' TERM; echo $BOWLINE_TEST_POSTGRES; while :; do sleep 0.01; done";
    let runner = run(script, "");
    let url = until(SOON, "a url", async || runner.stdout().lines().next().map(str::to_owned)).await;
    let client = bowline_testkit::connect(&url).await.unwrap();
    let row = client.query_one("select current_setting('max_connections')", &[]).await.unwrap();
    assert_eq!(row.get::<_, String>(0), "300");
    runner.term();
    assert_eq!(runner.wait_exit(SOON).await.code(), Some(7));
}

#[tokio::test]
async fn a_server_that_is_already_named_is_used() {
    let runner = run("echo $BOWLINE_TEST_POSTGRES; kill -9 $$", "postgres://elsewhere/x");
    assert_eq!(runner.wait_exit(SOON).await.code(), Some(137));
    assert_eq!(runner.stdout().trim(), "postgres://elsewhere/x");
}

#[tokio::test]
async fn a_command_that_is_not_there_is_named() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_with-postgres"));
    command.arg("no-such-command").env(SERVER_VARIABLE, "postgres://elsewhere/x");
    let runner = Child::spawn(command, "with-postgres");
    assert_eq!(runner.wait_exit(SOON).await.code(), Some(2));
    assert!(runner.stderr().contains("cannot run no-such-command"), "{}", runner.stderr());
}
