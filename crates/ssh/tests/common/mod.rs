//! A pool that knows the sshd of the test, and short ways to use it.
#![allow(dead_code, reason = "every test file uses its own part of this")]

use std::time::Duration;

use bowline_ssh::{Collected, RemoteCommand, RemoteExit, SshError, SshPool, SshSettings, Target};
use bowline_testkit::Sshd;
use tokio_util::sync::CancellationToken;

pub const LOCALHOST: &str = "127.0.0.1";
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Settings with which the server lets us in and we trust it.
pub fn settings(server: &Sshd) -> SshSettings {
    let mut settings = SshSettings::new(server.user());
    settings.key_files = vec![server.client_key()];
    settings.known_hosts = vec![server.known_hosts([LOCALHOST, "localhost", "::1"])];
    settings
}

pub fn pool(server: &Sshd) -> SshPool {
    SshPool::new(settings(server)).expect("the settings are right")
}

pub fn target(server: &Sshd) -> Target {
    Target::new(LOCALHOST).with_port(server.port())
}

/// A script for the shell on the other side.
pub fn sh(script: &str) -> RemoteCommand {
    RemoteCommand::new(["/bin/sh", "-c", script])
}

/// What a command wrote, and how it ended.
pub async fn run(
    pool: &SshPool,
    target: &Target,
    command: &RemoteCommand,
) -> (Result<RemoteExit, SshError>, Collected) {
    let mut sink = Collected::up_to(1 << 20);
    let end = pool.exec(target, command, &mut sink, CancellationToken::new()).await;
    (end, sink)
}

/// The standard output of a command that must succeed.
pub async fn stdout_of(pool: &SshPool, target: &Target, command: &RemoteCommand) -> String {
    let (end, sink) = run(pool, target, command).await;
    match end {
        Ok(exit) if exit.is_success() => String::from_utf8_lossy(&sink.stdout).into_owned(),
        other => panic!("{other:?}, stderr: {}", String::from_utf8_lossy(&sink.stderr)),
    }
}

/// An error with all its causes.
pub fn told(error: &SshError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
