//! Connections are made once and shared, within the limits of both sides.

mod common;

use std::sync::Arc;
use std::time::Duration;

use bowline_ssh::{Collected, RemoteCommand, SshPool, SshSettings, Target};
use bowline_testkit::{Sshd, until};
use common::{PATIENCE, settings, sh, stdout_of, target};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

async fn all(pool: &Arc<SshPool>, targets: Vec<Target>, command: RemoteCommand) {
    let mut tasks = JoinSet::new();
    for target in targets {
        let (pool, command) = (Arc::clone(pool), command.clone());
        tasks.spawn(async move {
            let mut sink = Collected::up_to(1 << 10);
            pool.exec(&target, &command, &mut sink, CancellationToken::new()).await
        });
    }
    while let Some(end) = tasks.join_next().await {
        match end.expect("no task panics") {
            Ok(exit) => assert!(exit.is_success(), "{exit:?}"),
            Err(error) => panic!("{}", common::told(&error)),
        }
    }
}

fn pool(settings: SshSettings) -> Arc<SshPool> {
    Arc::new(SshPool::new(settings).expect("the settings are right"))
}

/// Two hundred hosts, all of them one sshd.
fn many(server: &Sshd, count: u8) -> (Vec<Target>, SshSettings) {
    let hosts: Vec<String> = (1..=count).map(|n| format!("127.0.0.{n}")).collect();
    let mut settings = settings(server);
    settings.known_hosts = vec![server.known_hosts(hosts.iter().map(String::as_str))];
    settings.connect_timeout = Duration::from_secs(30);
    (hosts.into_iter().map(|host| Target::new(host).with_port(server.port())).collect(), settings)
}

#[tokio::test]
async fn a_hundred_commands_need_one_login() {
    let server = Sshd::start();
    let (pool, target) = (pool(settings(&server)), target(&server));
    all(&pool, vec![target.clone(); 50], sh("true")).await;
    for _ in 0..50 {
        stdout_of(&pool, &target, &sh("true")).await;
    }
    assert_eq!(server.logins(), 1);
    assert_eq!(pool.connections(), 1);
}

#[tokio::test]
async fn a_server_that_allows_less_than_we_thought_is_believed() {
    let server = Sshd::options().max_sessions(2).start();
    let (pool, target) = (pool(settings(&server)), target(&server));
    all(&pool, vec![target.clone(); 20], sh("sleep 0.05")).await;
    assert_eq!(server.logins(), 1);
}

#[tokio::test]
async fn a_server_that_allows_no_session_is_not_asked_for_ever() {
    let server = Sshd::options().max_sessions(0).start();
    let (pool, target) = (pool(settings(&server)), target(&server));
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let (pool, target) = (Arc::clone(&pool), target.clone());
        tasks.spawn(async move { common::run(&pool, &target, &sh("true")).await.0.unwrap_err() });
    }
    while let Some(error) = tasks.join_next().await {
        let error = error.unwrap();
        let refused = bowline_ssh::NotStarted::SessionRefused(String::new());
        let bowline_ssh::SshError::NotStarted { cause, .. } = &error else { panic!("{}", common::told(&error)) };
        assert_eq!(std::mem::discriminant(cause), std::mem::discriminant(&refused), "{}", common::told(&error));
        assert!(error.may_pass());
    }
    assert_eq!(server.logins(), 1);
}

#[tokio::test]
async fn the_default_user_is_the_same_when_named() {
    let server = Sshd::start();
    let (pool, target) = (pool(settings(&server)), target(&server));
    stdout_of(&pool, &target, &sh("true")).await;
    stdout_of(&pool, &target.clone().with_user(server.user()), &sh("true")).await;
    assert_eq!(server.logins(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_targets_at_once() {
    let server = Sshd::options().every_loopback_address().start();
    let (targets, settings) = many(&server, 200);
    let pool = pool(settings);
    all(&pool, targets.clone(), sh("true")).await;
    assert_eq!((server.logins(), pool.connections()), (200, 200));
    all(&pool, targets, sh("true")).await;
    assert_eq!(server.logins(), 200);
    pool.close().await;
    assert_eq!(pool.connections(), 0);
}

/// sshd drops those who come while too many are logging in. They come again.
#[tokio::test]
async fn a_server_that_is_called_by_too_many_at_once_serves_them_all() {
    let server = Sshd::options().every_loopback_address().max_startups("2").setting("LogLevel", "DEBUG1").start();
    let (targets, settings) = many(&server, 40);
    let pool = pool(settings);
    all(&pool, targets, sh("true")).await;
    assert_eq!(server.logins(), 40);
    let dropped = server.log().lines().filter(|line| line.contains("drop connection")).count();
    assert!(dropped > 0, "none was dropped, so nothing was proved");
}

#[tokio::test]
async fn more_targets_than_connections_take_turns() {
    let server = Sshd::options().every_loopback_address().start();
    let (targets, settings) = many(&server, 30);
    let pool = pool(SshSettings { connections_max: 4, ..settings });
    all(&pool, targets.clone(), sh("sleep 0.02")).await;
    assert_eq!(server.logins(), 30);
    // And those that are idle make room, the oldest first.
    for target in &targets[..6] {
        stdout_of(&pool, target, &sh("true")).await;
    }
    assert!(pool.connections() <= 5, "{}", pool.connections());
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let server = Sshd::start();
    let pool = pool(SshSettings { idle_timeout: Duration::from_millis(200), ..settings(&server) });
    stdout_of(&pool, &target(&server), &sh("sleep 0.4")).await;
    assert_eq!(pool.connections(), 1);
    until(PATIENCE, "the connection to be closed", async || pool.connections() == 0).await;
    until(PATIENCE, "the server to hear of it", async || server.log().contains("Received disconnect")).await;
}
