//! Connections that fail, before and after the command was sent: what is known is said, and no more.

mod common;

use std::time::{Duration, Instant};

use bowline_ssh::{Collected, ConnectError, Effect, NotStarted, SshError, SshPool, Target};
use bowline_testkit::{Sshd, free_port, until};
use common::{LOCALHOST, PATIENCE, pool, run, settings, sh, stdout_of, target, told};
use tokio_util::sync::CancellationToken;

fn connect_error(error: &SshError) -> &ConnectError {
    match error {
        SshError::NotStarted { cause: NotStarted::Connect(cause), .. } => cause,
        _ => panic!("{}", told(error)),
    }
}

#[tokio::test]
async fn a_server_that_dies_under_a_command_leaves_its_outcome_unknown() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    let flag = server.directory().join("started");
    let command = sh(&format!("touch {}; sleep 1000", flag.display()));
    let mut sink = Collected::up_to(1 << 16);
    let kill = async {
        until(PATIENCE, "the command to start", async || flag.exists()).await;
        server.kill();
    };
    let (end, ()) = tokio::join!(pool.exec(&target, &command, &mut sink, CancellationToken::new()), kill);
    let error = end.unwrap_err();
    assert!(matches!(error, SshError::OutcomeUnknown { .. }), "{}", told(&error));
    assert_eq!(error.effect(), Effect::Unknown);
    assert!(error.may_pass());
}

#[tokio::test]
async fn a_server_that_is_not_there_was_asked_nothing() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    stdout_of(&pool, &target, &sh("true")).await;
    server.kill();
    let error = run(&pool, &target, &sh("true")).await.0.unwrap_err();
    assert!(matches!(connect_error(&error), ConnectError::Unreachable(_)), "{}", told(&error));
    assert!(told(&error).contains("refused"), "{}", told(&error));
    assert_eq!((error.effect(), error.may_pass()), (Effect::None, true));
}

/// A connection that died while nobody used it is nobody's business.
#[tokio::test]
async fn a_connection_that_died_while_idle_is_replaced_in_silence() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    for logins in 1..4 {
        assert_eq!(stdout_of(&pool, &target, &sh("echo here")).await, "here\n");
        assert_eq!(server.logins(), logins);
        if logins == 2 {
            server.kill();
            server.start_again();
        } else {
            server.drop_connections();
        }
    }
}

/// The kernel still acknowledges everything. Only time tells.
#[tokio::test]
async fn a_frozen_server_is_given_up_after_the_connect_timeout() {
    let server = Sshd::start();
    let mut settings = settings(&server);
    settings.connect_timeout = Duration::from_millis(700);
    let pool = SshPool::new(settings).unwrap();
    let fresh = SshPool::new({
        let mut settings = common::settings(&server);
        settings.connect_timeout = Duration::from_millis(700);
        settings
    });
    let target = target(&server);
    stdout_of(&pool, &target, &sh("true")).await;
    server.freeze();
    let started_at = Instant::now();
    // One has a connection, the other has not.
    for pool in [pool, fresh.unwrap()] {
        let error = run(&pool, &target, &sh("true")).await.0.unwrap_err();
        assert!(matches!(connect_error(&error), ConnectError::Timeout { .. }), "{}", told(&error));
        assert!(error.may_pass());
        pool.close().await;
    }
    assert!(started_at.elapsed() < Duration::from_secs(10), "{:?}", started_at.elapsed());
    server.thaw();
}

/// A server that goes silent under a command is noticed by the keepalive.
#[tokio::test]
async fn a_silent_server_is_noticed() {
    let server = Sshd::start();
    let mut settings = settings(&server);
    (settings.keepalive_interval, settings.keepalive_max) = (Duration::from_millis(200), 2);
    let pool = SshPool::new(settings).unwrap();
    let flag = server.directory().join("started");
    let command = sh(&format!("touch {}; sleep 1000", flag.display()));
    let mut sink = Collected::up_to(1 << 16);
    let freeze = async {
        until(PATIENCE, "the command to start", async || flag.exists()).await;
        server.freeze();
    };
    let target = target(&server);
    let (end, ()) = tokio::join!(pool.exec(&target, &command, &mut sink, CancellationToken::new()), freeze);
    let error = end.unwrap_err();
    assert!(matches!(error, SshError::OutcomeUnknown { .. }), "{}", told(&error));
    assert!(told(&error).to_lowercase().contains("keepalive"), "{}", told(&error));
    server.thaw();
}

/// What listens there is no SSH server: it takes the connection, and hangs up.
#[tokio::test]
async fn a_server_that_always_breaks_off_is_called_again_until_the_time_is_up() {
    let server = Sshd::start();
    let listener = tokio::net::TcpListener::bind((LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut settings = settings(&server);
    settings.connect_timeout = Duration::from_millis(600);
    let pool = SshPool::new(settings).unwrap();
    let target = Target::new(LOCALHOST).with_port(port);
    let command = sh("true");
    let hang_up = async {
        let mut calls = 0;
        while let Ok((stream, _)) = listener.accept().await {
            calls += 1;
            drop(stream);
            if calls > 100 {
                break;
            }
        }
    };
    let error = tokio::select! {
        (end, _) = run(&pool, &target, &command) => end.unwrap_err(),
        () = hang_up => panic!("called a hundred times"),
    };
    assert!(matches!(connect_error(&error), ConnectError::BrokenOff { times: 2.., .. }), "{}", told(&error));
    assert!(error.may_pass());
}

#[tokio::test]
async fn one_failure_is_shared_by_all_who_waited() {
    let server = Sshd::start();
    let listener = tokio::net::TcpListener::bind((LOCALHOST, 0)).await.unwrap();
    let mut settings = settings(&server);
    settings.connect_timeout = Duration::from_millis(500);
    let pool = SshPool::new(settings).unwrap();
    // It listens and never answers.
    let target = Target::new(LOCALHOST).with_port(listener.local_addr().unwrap().port());
    let started_at = Instant::now();
    let mut all = tokio::task::JoinSet::new();
    let pool = std::sync::Arc::new(pool);
    for _ in 0..20 {
        let (pool, target) = (std::sync::Arc::clone(&pool), target.clone());
        all.spawn(async move { run(&pool, &target, &sh("true")).await.0.unwrap_err() });
    }
    while let Some(error) = all.join_next().await {
        assert!(matches!(connect_error(&error.unwrap()), ConnectError::Timeout { .. }));
    }
    assert!(started_at.elapsed() < Duration::from_secs(3), "{:?}", started_at.elapsed());
}

#[tokio::test]
async fn names_nobody_knows_and_bad_ones_are_told_apart() {
    let server = Sshd::start();
    let pool = pool(&server);
    let error = run(&pool, &Target::new("no-such-host.invalid"), &sh("true")).await.0.unwrap_err();
    assert!(matches!(connect_error(&error), ConnectError::Unresolved { .. }), "{}", told(&error));
    for address in ["-oProxyCommand=touch x", "--help", "host,other"] {
        let error = run(&pool, &Target::new(address), &sh("true")).await.0.unwrap_err();
        assert!(matches!(&error, SshError::NotStarted { cause: NotStarted::Target(_), .. }), "{}", told(&error));
        assert!(!error.may_pass());
    }
}

#[tokio::test]
async fn a_call_that_is_canceled_while_it_connects_started_nothing() {
    let server = Sshd::start();
    let pool = pool(&server);
    let listener = std::net::TcpListener::bind((LOCALHOST, free_port())).unwrap();
    let target = Target::new(LOCALHOST).with_port(listener.local_addr().unwrap().port());
    let cancel = CancellationToken::new();
    let mut sink = Collected::up_to(0);
    let command = sh("true");
    let cancel_it = async {
        until(PATIENCE, "it to connect", async || pool.connections() == 1).await;
        cancel.cancel();
    };
    let (end, ()) = tokio::join!(pool.exec(&target, &command, &mut sink, cancel.clone()), cancel_it);
    let error = end.unwrap_err();
    assert!(matches!(&error, SshError::NotStarted { cause: NotStarted::Canceled, .. }), "{}", told(&error));
    until(PATIENCE, "nobody to connect any more", async || pool.connections() == 0).await;
}
