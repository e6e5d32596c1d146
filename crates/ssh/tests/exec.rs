//! A command runs on the other side as it would here: code, signal, streams, input, directory, variables.

mod common;

use std::time::Duration;

use bowline_ssh::{Collected, NotStarted, Output, RemoteCommand, Secret, SshError, Stream};
use bowline_testkit::Sshd;
use common::{pool, run, sh, stdout_of, target, told};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn exit_codes_come_back_and_streams_stay_apart() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    for code in [0, 1, 42, 125, 255] {
        let (end, sink) = run(&pool, &target, &sh(&format!("echo out; echo err >&2; exit {code}"))).await;
        let exit = end.unwrap();
        assert_eq!((exit.code, exit.signal, exit.output_complete), (Some(code), None, true));
        assert_eq!((sink.stdout.as_slice(), sink.stderr.as_slice()), (b"out\n".as_slice(), b"err\n".as_slice()));
    }
    let (end, _) = run(&pool, &target, &RemoteCommand::new(["/no/such/program"])).await;
    assert_eq!(end.unwrap().code, Some(127));
}

#[tokio::test]
async fn a_signal_is_told_as_a_signal() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    for signal in ["TERM", "KILL", "SEGV"] {
        let (end, _) = run(&pool, &target, &sh(&format!("kill -{signal} $$; sleep 10"))).await;
        let exit = end.unwrap();
        assert_eq!((exit.code, exit.signal.as_deref()), (None, Some(signal)));
    }
}

#[tokio::test]
async fn standard_input_arrives_whole_and_ends() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    let mut command = RemoteCommand::new(["cat"]);
    assert_eq!(stdout_of(&pool, &target, &command).await, "");
    command.stdin = "no line break at the end".into();
    assert_eq!(stdout_of(&pool, &target, &command).await, "no line break at the end");
    // More than any window.
    let megabytes = 8;
    command.argv = vec!["wc".into(), "-c".into()];
    command.stdin = vec![b'x'; megabytes << 20].into();
    assert_eq!(stdout_of(&pool, &target, &command).await.trim(), (megabytes << 20).to_string());
    // Nobody reads it, and nobody waits for that.
    command.argv = vec!["true".into()];
    assert_eq!(stdout_of(&pool, &target, &command).await, "");
}

#[tokio::test]
async fn variables_and_directory_are_set() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    let mut command = sh("printf '%s|%s|%s' \"$PLAIN\" \"$SECRET\" \"$PWD\"; cat");
    let value = "it's \"$HOME\"\n`id` \\ end ";
    command.env = vec![("PLAIN".into(), value.into())];
    command.secret_env = vec![("SECRET".into(), Secret::new(value))];
    command.cwd = Some("/tmp".into());
    command.stdin = "|and stdin".into();
    assert_eq!(stdout_of(&pool, &target, &command).await, format!("{value}|{value}|/tmp|and stdin"));
}

#[tokio::test]
async fn a_directory_that_is_not_there_means_that_nothing_ran() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    let mut command = sh("echo ran");
    command.cwd = Some("/no/such/place".into());
    let (end, sink) = run(&pool, &target, &command).await;
    let error = end.unwrap_err();
    assert!(matches!(&error, SshError::NotStarted { cause: NotStarted::Directory(_), .. }), "{}", told(&error));
    assert!(sink.stdout.is_empty() && sink.stderr.is_empty(), "{sink:?}");
    assert!(!error.may_pass());
}

/// Whatever is said on the way: the server side may list it for everybody.
#[tokio::test]
async fn secrets_are_on_no_command_line() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    let secret = "correct horse\nbattery's staple";
    let mut command = sh("until [ -s \"$0\" ] && grep -q done \"$0\"; do sleep 0.01; done; printf %s \"$TOKEN\"");
    let flag = server.directory().join("flag");
    command.argv.push(flag.to_str().unwrap().to_owned());
    command.secret_env = vec![("TOKEN".into(), Secret::new(secret))];
    let seen = std::thread::spawn(move || {
        let mut seen = Vec::new();
        for _ in 0..150 {
            let listing = std::process::Command::new("ps").args(["-eww", "-o", "args"]).output().unwrap();
            seen.push(String::from_utf8_lossy(&listing.stdout).into_owned());
        }
        std::fs::write(flag, "done").unwrap();
        seen
    });
    assert_eq!(stdout_of(&pool, &target, &command).await, secret);
    let seen = seen.join().unwrap();
    assert!(seen.iter().any(|listing| listing.contains("until [ -s")), "the command was never listed");
    for word in ["correct", "horse", "battery", "staple"] {
        assert!(seen.iter().all(|listing| !listing.contains(word)), "{word} was listed");
    }
}

#[tokio::test]
async fn a_hundred_mebibytes_arrive_intact_in_little_memory() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    const BYTES: usize = 100 << 20;
    // Every line is its own number, so that a lost or doubled piece is seen.
    let lines = BYTES / 16;
    let command = RemoteCommand::new(["seq".to_owned(), "-f".into(), "%015.0f".into(), lines.to_string()]);
    let before = resident_bytes();
    let (mut sender, mut receiver) = mpsc::channel::<Output>(1);
    let reader = async {
        let (mut next, mut rest, mut most) = (1usize, Vec::new(), 0);
        while let Some(output) = receiver.recv().await {
            assert_eq!(output.stream, Stream::Stdout);
            rest.extend_from_slice(&output.data);
            let whole = rest.len() / 16 * 16;
            for line in rest[..whole].chunks(16) {
                let number: usize = std::str::from_utf8(&line[..15]).unwrap().parse().unwrap();
                assert_eq!((number, line[15]), (next, b'\n'));
                next += 1;
            }
            rest.drain(..whole);
            // A reader that is slow at first: the rest must wait on the other side.
            if next < 20_000 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            most = most.max(resident_bytes());
        }
        (next - 1, rest.len(), most)
    };
    let exec = async {
        let end = pool.exec(&target, &command, &mut sender, CancellationToken::new()).await;
        drop(sender);
        end
    };
    let (end, (count, rest, most)) = tokio::join!(exec, reader);
    assert!(end.unwrap().output_complete);
    assert_eq!((count, rest), (lines, 0));
    let grown = most.saturating_sub(before);
    assert!(grown < 24 << 20, "the process grew by {grown} bytes");
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("pages") * 4096
}

#[tokio::test]
async fn what_a_command_leaves_running_does_not_hold_us() {
    let server = Sshd::start();
    let mut settings = common::settings(&server);
    settings.linger = Duration::from_millis(300);
    let pool = bowline_ssh::SshPool::new(settings).unwrap();
    let (end, sink) = run(&pool, &target(&server), &sh("sleep 1000 & echo started")).await;
    let exit = end.unwrap();
    assert_eq!((exit.code, exit.output_complete), (Some(0), false));
    assert_eq!(sink.stdout, b"started\n");
}

#[tokio::test]
async fn a_sink_that_takes_no_more_stops_the_command() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    let (mut sink, receiver) = mpsc::channel(1);
    drop(receiver);
    let error = pool.exec(&target, &sh("yes"), &mut sink, CancellationToken::new()).await.unwrap_err();
    let SshError::Stopped { stopped, .. } = &error else { panic!("{}", told(&error)) };
    assert!(matches!(stopped.cause, bowline_ssh::StopCause::Output(_)), "{stopped:?}");
    assert_eq!(stopped.end, bowline_ssh::StopEnd::Confirmed);
}

#[tokio::test]
async fn a_closed_pool_takes_nothing_and_leaves_nothing() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    stdout_of(&pool, &target, &sh("true")).await;
    assert_eq!(pool.connections(), 1);
    pool.close().await;
    assert_eq!(pool.connections(), 0);
    let error = pool.exec(&target, &sh("true"), &mut Collected::up_to(0), CancellationToken::new()).await.unwrap_err();
    assert!(matches!(&error, SshError::NotStarted { cause: NotStarted::Closed, .. }), "{}", told(&error));
}
