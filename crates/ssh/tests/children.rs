//! What a command leaves running on the other side is found, named, and ended unless it is to stay.

mod common;

use std::time::Duration;

use bowline_ssh::{ChildSearch, ChildrenSeen, LeftChildren, RemoteCommand, SshError, StopEnd};
use bowline_testkit::{Sshd, until};
use common::{PATIENCE, pool, run, sh, target};
use tokio_util::sync::CancellationToken;

/// How many processes on this machine carry this word as an argument, the dead not counted.
fn running(word: &str) -> usize {
    let all = std::fs::read_dir("/proc").expect("Linux tells").flatten();
    all.filter(|entry| {
        let cmdline = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        cmdline.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    })
    .count()
}

/// A script that starts what `word` is an argument of, and ends. `mark` is in the environment of both.
fn leaving(script: &str, word: &str, grace: Option<Duration>) -> RemoteCommand {
    let mut command = sh(script);
    command.argv.push(word.to_owned());
    command.env = vec![("MARK".to_owned(), word.to_owned())];
    command.children = Some(ChildSearch { end_after: grace, marker: Some(format!("MARK={word}")) });
    command
}

fn found(seen: &ChildrenSeen) -> &LeftChildren {
    match seen {
        ChildrenSeen::Found(children) => children,
        other => panic!("{other:?}"),
    }
}

const GRACE: Option<Duration> = Some(Duration::from_millis(300));
/// Lasts, and carries the word.
const SLEEP: &str = "/bin/sh -c 'sleep 1000; :'";

#[tokio::test]
async fn a_command_that_leaves_nothing_says_so() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    let (end, _) = run(&pool, &target, &leaving("sleep 0.1 & exit 3", "quiet-child", GRACE)).await;
    let exit = end.expect("it ends");
    assert_eq!((exit.code, exit.children), (Some(3), ChildrenSeen::None));
    let (end, _) = run(&pool, &target, &sh("true")).await;
    assert_eq!(end.expect("it ends").children, ChildrenSeen::NotLooked);
    assert_eq!(server.logins(), 1, "one connection is enough");
}

#[tokio::test]
async fn children_in_the_session_are_ended() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    // Without its environment only the session tells whose it is.
    let script = format!("env -i {SLEEP} \"$0\" >/dev/null 2>&1 & exit 0");
    let (end, _) = run(&pool, &target, &leaving(&script, "child-of-session", GRACE)).await;
    let exit = end.expect("it ends");
    let children = found(&exit.children);
    assert!(children.count >= 1 && children.remain == 0, "{children:?}");
    assert!(children.processes.iter().any(|(_, name)| name == "sleep"), "{children:?}");
    assert_eq!(running("child-of-session"), 0);
}

#[tokio::test]
async fn children_that_left_the_session_are_found_by_their_environment() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    let script = format!("setsid {SLEEP} \"$0\" >/dev/null 2>&1 & exit 0");
    let (end, _) = run(&pool, &target, &leaving(&script, "child-of-setsid", GRACE)).await;
    assert_eq!(found(&end.expect("it ends").children).remain, 0);
    assert_eq!(running("child-of-setsid"), 0);
}

#[tokio::test]
async fn children_that_do_not_listen_are_killed_and_what_held_the_output_is_gone() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    let script = "/bin/sh -c 'trap \"\" TERM; while :; do sleep 0.05; done' \"$0\" & exit 0";
    let (end, _) = run(&pool, &target, &leaving(script, "stubborn-child", GRACE)).await;
    let exit = end.expect("it ends");
    let children = found(&exit.children);
    assert!(children.killed >= 1 && children.remain == 0, "{children:?}");
    assert!(exit.output_complete, "nobody holds it open any more");
    assert_eq!(running("stubborn-child"), 0);
}

#[tokio::test]
async fn children_that_are_to_stay_are_named_and_stay() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    let script = format!("setsid {SLEEP} \"$0\" >/dev/null 2>&1 & exit 0");
    let (end, _) = run(&pool, &target, &leaving(&script, "child-that-stays", None)).await;
    let exit = end.expect("it ends");
    let children = found(&exit.children);
    assert_eq!((children.killed, children.remain), (0, children.count), "{children:?}");
    assert!(running("child-that-stays") > 0);
    for (pid, _) in &children.processes {
        let _ = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
    }
    until(PATIENCE, "the test to leave nothing behind", async || running("child-that-stays") == 0).await;
}

#[tokio::test]
async fn a_stopped_command_ends_with_what_left_its_session() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    let script = format!("setsid {SLEEP} \"$0\" >/dev/null 2>&1 & sleep 1000");
    let command = leaving(&script, "child-of-stopped", GRACE);
    let cancel = CancellationToken::new();
    let exec = async {
        let mut sink = bowline_ssh::Collected::up_to(1 << 16);
        pool.exec(&target, &command, &mut sink, cancel.clone()).await
    };
    let cancel_it = async {
        until(PATIENCE, "the child to stand", async || running("child-of-stopped") >= 2).await;
        cancel.cancel();
    };
    let (end, ()) = tokio::join!(exec, cancel_it);
    match end {
        Err(SshError::Stopped { stopped, .. }) => assert_eq!(stopped.end, StopEnd::Confirmed),
        other => panic!("{other:?}"),
    }
    assert_eq!(running("child-of-stopped"), 0);
}
