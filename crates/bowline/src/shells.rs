//! What shells and manuals know about the commands: completion scripts and man pages, both from the command line itself.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

/// Prints the script of a shell.
pub fn completions(shell: clap_complete::Shell, command: &mut clap::Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, command, "bowline", &mut script);
    print(&script)
}

/// Writes a page for each command to a directory, or prints the one of the program itself.
pub fn man(directory: Option<&Path>, command: clap::Command) -> anyhow::Result<ExitCode> {
    let Some(directory) = directory else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        return print(&page);
    };
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    clap_mangen::generate_to(command, directory).with_context(|| format!("cannot write to {}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// A reader that has seen enough is no failure.
fn print(bytes: &[u8]) -> anyhow::Result<ExitCode> {
    match std::io::stdout().write_all(bytes) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error).context("cannot write the output"),
        _ => Ok(ExitCode::SUCCESS),
    }
}
