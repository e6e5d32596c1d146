//! A command that is to end ends, with what it started, and we say honestly what we know of it.

mod common;

use std::time::{Duration, Instant};

use bowline_ssh::{Collected, Effect, RemoteCommand, SshError, SshPool, StopCause, StopEnd, Stopped};
use bowline_testkit::{Sshd, until};
use common::{PATIENCE, pool, settings, sh, stdout_of, target, told};
use tokio_util::sync::CancellationToken;

fn stopped(end: Result<bowline_ssh::RemoteExit, SshError>) -> Stopped {
    match end {
        Err(SshError::Stopped { stopped, .. }) => stopped,
        Err(error) => panic!("{}", told(&error)),
        Ok(exit) => panic!("{exit:?}"),
    }
}

/// How many processes on this machine carry this word as an argument, the dead not counted.
fn running(word: &str) -> usize {
    let all = std::fs::read_dir("/proc").expect("Linux tells").flatten();
    all.filter(|entry| {
        let cmdline = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        cmdline.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    })
    .count()
}

/// A shell with two children and a grandchild, all of which carry `word`.
fn tree(word: &str, trap: &str) -> RemoteCommand {
    let sleep = "sleep 1000 & wait";
    let mut command = sh(&format!(
        "{trap}\n/bin/sh -c '{trap}\n/bin/sh -c \"{trap}\n{sleep}\" sh \"$0\" & {sleep}' {word} & {sleep}"
    ));
    command.argv.push(word.to_owned());
    command
}

#[tokio::test]
async fn cancel_ends_the_whole_tree() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    let command = tree("tree-of-cancel", "");
    let cancel = CancellationToken::new();
    let exec = async {
        let mut sink = Collected::up_to(1 << 16);
        pool.exec(&target, &command, &mut sink, cancel.clone()).await
    };
    let cancel_it = async {
        until(PATIENCE, "the tree to stand", async || running("tree-of-cancel") >= 3).await;
        cancel.cancel();
    };
    let (end, ()) = tokio::join!(exec, cancel_it);
    let stopped = stopped(end);
    assert_eq!((&stopped.cause, &stopped.end), (&StopCause::Canceled, &StopEnd::Confirmed), "{stopped:?}");
    assert_eq!(stopped.exit.and_then(|exit| exit.signal).as_deref(), Some("TERM"));
    assert_eq!(running("tree-of-cancel"), 0);
    // The connection is as good as before.
    stdout_of(&pool, &target, &sh("true")).await;
    assert_eq!(server.logins(), 1);
}

#[tokio::test]
async fn the_time_limit_ends_even_those_who_do_not_listen() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    let mut command = tree("tree-of-limit", "trap \"\" TERM INT HUP");
    command.time_limit = Some(Duration::from_millis(700));
    command.kill_grace = Duration::from_millis(500);
    let started_at = Instant::now();
    let mut sink = Collected::up_to(1 << 16);
    let stopped = stopped(pool.exec(&target, &command, &mut sink, CancellationToken::new()).await);
    assert!(matches!(stopped.cause, StopCause::TimeLimit(_)), "{stopped:?}");
    assert_eq!(stopped.end, StopEnd::Confirmed, "{stopped:?}");
    assert_eq!(stopped.exit.and_then(|exit| exit.signal).as_deref(), Some("KILL"));
    assert_eq!(running("tree-of-limit"), 0);
    assert!(started_at.elapsed() >= Duration::from_millis(1200), "{:?}", started_at.elapsed());
}

#[tokio::test]
async fn who_listens_has_time_to_tidy_up_and_is_heard() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    let mut command = sh("trap 'echo tidying; sleep 0.3; echo tidy; exit 7' TERM; echo ready; sleep 1000 & wait");
    command.time_limit = Some(Duration::from_millis(500));
    let mut sink = Collected::up_to(1 << 16);
    let stopped = stopped(pool.exec(&target, &command, &mut sink, CancellationToken::new()).await);
    assert_eq!(stopped.exit.and_then(|exit| exit.code), Some(7));
    assert_eq!(String::from_utf8_lossy(&sink.stdout), "ready\ntidying\ntidy\n");
}

/// Nobody waits for the output of a command that is canceled, not even its own sink.
#[tokio::test]
async fn a_command_whose_sink_stands_still_can_be_canceled() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    let (mut sink, receiver) = tokio::sync::mpsc::channel(1);
    let cancel = CancellationToken::new();
    let command = RemoteCommand::new(["yes", "word-of-yes"]);
    let cancel_it = async {
        until(PATIENCE, "output to pile up", async || receiver.len() == 1).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        cancel.cancel();
    };
    let (end, ()) = tokio::join!(pool.exec(&target, &command, &mut sink, cancel.clone()), cancel_it);
    assert_eq!(stopped(end).end, StopEnd::Confirmed);
    assert_eq!(running("word-of-yes"), 0);
    drop(receiver);
}

#[tokio::test]
async fn a_dropped_caller_is_a_cancel() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    let command = tree("tree-of-drop", "");
    let mut sink = Collected::up_to(1 << 16);
    tokio::select! {
        end = pool.exec(&target, &command, &mut sink, CancellationToken::new()) => panic!("{end:?}"),
        () = until(PATIENCE, "the tree to stand", async || running("tree-of-drop") >= 3) => {}
    }
    until(PATIENCE, "the tree to fall", async || running("tree-of-drop") == 0).await;
    pool.close().await;
}

#[tokio::test]
async fn a_cancel_right_after_the_start_leaves_nothing() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    stdout_of(&pool, &target, &sh("true")).await;
    for delay in 0..15 {
        let cancel = CancellationToken::new();
        let command = RemoteCommand::new(["sleep", "1000", "0.000000000077"]);
        let mut sink = Collected::up_to(1 << 16);
        let cancel_it = async {
            tokio::time::sleep(Duration::from_millis(delay)).await;
            cancel.cancel();
        };
        let (end, ()) = tokio::join!(pool.exec(&target, &command, &mut sink, cancel.clone()), cancel_it);
        match end {
            Err(SshError::Stopped { stopped, .. }) => assert_eq!(stopped.end, StopEnd::Confirmed, "{stopped:?}"),
            Err(error @ SshError::NotStarted { .. }) => assert_eq!(error.effect(), Effect::None),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(running("0.000000000077"), 0);
    assert_eq!(server.logins(), 1);
}

/// If there is no second session on the connection, there is a second connection.
#[tokio::test]
async fn a_server_with_one_session_is_no_exception() {
    let server = Sshd::options().max_sessions(1).start();
    let pool = SshPool::new(settings(&server)).unwrap();
    for (trap, signal) in [("", "TERM"), ("trap \"\" TERM", "KILL")] {
        let mut command = tree("tree-of-one", trap);
        command.time_limit = Some(Duration::from_millis(500));
        command.kill_grace = Duration::from_millis(300);
        let mut sink = Collected::up_to(1 << 16);
        let stopped = stopped(pool.exec(&target(&server), &command, &mut sink, CancellationToken::new()).await);
        assert_eq!(stopped.end, StopEnd::Confirmed, "{stopped:?}");
        assert_eq!(stopped.exit.and_then(|exit| exit.signal).as_deref(), Some(signal));
        assert_eq!(running("tree-of-one"), 0);
    }
    assert_eq!(server.logins(), 3);
}

/// A server may run what it likes instead. Then nobody says which process to end, and OpenSSH refuses to signal it.
#[tokio::test]
async fn a_command_that_never_says_who_it_is_may_still_run() {
    let server = Sshd::options().setting("ForceCommand", "sleep 1000").start();
    let mut command = sh("true");
    command.time_limit = Some(Duration::from_millis(200));
    command.kill_grace = Duration::from_millis(200);
    let mut sink = Collected::up_to(1 << 16);
    let end = pool(&server).exec(&target(&server), &command, &mut sink, CancellationToken::new()).await;
    assert_eq!(end.as_ref().unwrap_err().effect(), Effect::Unknown);
    assert!(matches!(stopped(end).end, StopEnd::Unconfirmed { .. }));
}

#[tokio::test]
async fn an_end_nobody_can_confirm_is_not_claimed() {
    let server = Sshd::start();
    let mut settings = settings(&server);
    settings.connect_timeout = Duration::from_secs(1);
    let (pool, target) = (SshPool::new(settings).unwrap(), target(&server));
    let cancel = CancellationToken::new();
    let mut command = tree("tree-of-frost", "");
    command.kill_grace = Duration::from_millis(100);
    let mut sink = Collected::up_to(1 << 16);
    let freeze_and_cancel = async {
        until(PATIENCE, "the tree to stand", async || running("tree-of-frost") >= 3).await;
        server.freeze();
        cancel.cancel();
    };
    let (end, ()) = tokio::join!(pool.exec(&target, &command, &mut sink, cancel.clone()), freeze_and_cancel);
    let error = end.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown, "{}", told(&error));
    let SshError::Stopped { stopped, .. } = &error else { panic!("{}", told(&error)) };
    assert!(matches!(stopped.end, StopEnd::Unconfirmed { .. }), "{stopped:?}");
    server.thaw();
}
