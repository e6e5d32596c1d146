//! Running a command with a server at its side, for `with-postgres` and `with-rabbitmq`.
//!
//! The server is private, named to the command in the environment, and gone when the command is. If the variable already
//! names a server, it is used as it is and none is started.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use anyhow::{Context, bail};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

/// Runs the command that our own arguments name. `start` gives the server and what the variable should say.
pub fn run<S>(own_name: &str, variable: &str, start: impl FnOnce() -> anyhow::Result<(S, String)>) -> ExitCode {
    match try_run(own_name, variable, start) {
        Ok(status) => exit_code(status),
        Err(error) => {
            eprintln!("{own_name}: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn try_run<S>(
    own_name: &str,
    variable: &str,
    start: impl FnOnce() -> anyhow::Result<(S, String)>,
) -> anyhow::Result<ExitStatus> {
    let mut words = std::env::args_os().skip(1).skip_while(|word| word == "--");
    let Some(program) = words.next() else { bail!("usage: {own_name} COMMAND [ARGUMENT]...") };
    let arguments: Vec<OsString> = words.collect();
    let given = std::env::var_os(variable).filter(|value| !value.is_empty());
    let own = if given.is_some() { None } else { Some(start()?) };
    let mut command = Command::new(&program);
    command.args(arguments);
    if let Some((_, value)) = &own {
        command.env(variable, value);
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
