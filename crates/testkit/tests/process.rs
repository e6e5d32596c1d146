//! A child process is killed, stopped, waited for and read by the test that owns it.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use bowline_testkit::{Child, until};

const SOON: Duration = Duration::from_secs(10);

fn shell(script: &str) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    Child::spawn(command, "shell")
}

fn state_of(pid: u32) -> Option<char> {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?.rsplit_once(") ")?.1.chars().next()
}

#[tokio::test]
async fn its_output_and_its_end_are_seen() {
    let child = shell("echo out; echo err >&2; exit 3");
    assert_eq!(child.wait_exit(SOON).await.code(), Some(3));
    assert_eq!((child.stdout().as_str(), child.stderr().as_str()), ("out\n", "err\n"));
    assert_eq!(child.log(), "out\nerr\n");
    child.term();
    child.kill_9();
}

#[tokio::test]
async fn it_is_killed_and_reaped() {
    let child = shell("exec sleep 600");
    assert!(child.is_running());
    child.kill_9();
    assert_eq!(state_of(child.pid()), None);
    assert_eq!(child.wait_exit(SOON).await.signal(), Some(9));
}

#[tokio::test]
async fn a_polite_end_is_a_request() {
    let child = shell("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done");
    until(SOON, "the trap", async || child.stdout().contains("ready")).await;
    child.term();
    assert_eq!(child.wait_exit(SOON).await.code(), Some(0));
    assert!(child.log().ends_with("bye\n"));
}

#[tokio::test]
async fn it_stops_and_goes_on() {
    let child = shell("while :; do echo tick; sleep 0.01; done");
    until(SOON, "a tick", async || child.stdout().contains("tick")).await;
    child.stop();
    until(SOON, "a stop", async || state_of(child.pid()) == Some('T')).await;
    let ticks = child.stdout().len();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(child.stdout().len(), ticks);
    child.cont();
    until(SOON, "another tick", async || child.stdout().len() > ticks).await;
}

#[tokio::test]
#[should_panic(expected = "still running; its output:\nthe last word")]
async fn one_that_does_not_end_is_shown_with_its_output() {
    let child = shell("echo the last word; exec sleep 600");
    until(SOON, "the last word", async || child.log().contains("word")).await;
    child.wait_exit(Duration::from_millis(50)).await;
}

#[test]
fn it_does_not_outlive_its_guard() {
    let child = shell("exec sleep 600");
    let pid = child.pid();
    drop(child);
    assert_eq!(state_of(pid), None);
}

#[tokio::test]
async fn it_outlives_the_thread_that_started_it() {
    let child = std::thread::spawn(|| shell("exec sleep 600")).join().unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(child.is_running());
}

/// Not a test of its own: it is the process that the next test kills.
#[test]
#[ignore = "run by the test that kills it"]
fn victim() {
    if std::env::var_os("BOWLINE_TEST_VICTIM").is_none() {
        return;
    }
    let child = shell("exec sleep 600");
    println!("child={}\n", child.pid());
    loop {
        std::thread::park();
    }
}

#[tokio::test]
async fn it_dies_with_a_test_that_is_killed() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "victim", "--nocapture"]).env("BOWLINE_TEST_VICTIM", "1");
    let victim = Child::spawn(command, "victim");
    let grandchild: u32 = until(SOON, "the victim's child", async || {
        victim.stdout().split_once("child=")?.1.split_once('\n')?.0.parse().ok()
    })
    .await;
    assert!(state_of(grandchild).is_some());
    victim.kill_9();
    until(SOON, "the grandchild's death", async || matches!(state_of(grandchild), None | Some('Z'))).await;
}
