//! Runs a command with a PostgreSQL server at its side: `with-postgres cargo nextest run`.
//!
//! The server is private, named to the command in `BOWLINE_TEST_POSTGRES`, and gone when the command is. If that
//! variable already names a server, it is used as it is and none is started.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use anyhow::{Context, bail};
use bowline_testkit::postgres::{Postgres, SERVER_VARIABLE};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    match run() {
        Ok(status) => exit_code(status),
        Err(error) => {
            eprintln!("with-postgres: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> anyhow::Result<ExitStatus> {
    let mut words = std::env::args_os().skip(1).skip_while(|word| word == "--");
    let Some(program) = words.next() else { bail!("usage: with-postgres COMMAND [ARGUMENT]...") };
    let arguments: Vec<OsString> = words.collect();
    let given = std::env::var_os(SERVER_VARIABLE).filter(|url| !url.is_empty());
    let own = match given {
        Some(_) => None,
        // Every test may hold a pool or two, and many tests run at once.
        None => Some(Postgres::options().setting("max_connections", "300").try_start()?),
    };
    let mut command = Command::new(&program);
    command.args(arguments);
    if let Some(server) = &own {
        command.env(SERVER_VARIABLE, server.url());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(outlive(command)).with_context(|| format!("cannot run {}", program.display()))
}

/// Waits for the command, whatever we are told meanwhile: Ctrl-C reaches the command as well, a SIGTERM is passed on,
/// and in both cases the server stays until the command has ended its own way.
async fn outlive(mut command: Command) -> anyhow::Result<ExitStatus> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut child = command.spawn()?;
    loop {
        tokio::select! {
            status = child.wait() => return Ok(status?),
            _ = interrupt.recv() => {}
            // No pid means that it has ended and was reaped.
            _ = terminate.recv() => if let Some(pid) = child.id() {
                Command::new("kill").arg("-TERM").arg(pid.to_string()).status().await?;
            },
        }
    }
}

/// The command's own code, or what a shell would say of its signal.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
