//! The command line of the house.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

#[cfg(target_os = "linux")]
mod agent;
mod bench;
mod closed;
mod config;
mod demo;
mod doctor;
#[cfg(test)]
mod documents;
mod exposure;
mod first_start;
mod heads;
mod in_memory;
mod jwks;
mod ledger;
mod log;
mod migrate;
mod modes;
mod objects;
mod reload;
mod role;
mod secrets;
mod serve;
mod shells;
mod verify;

/// A job is put together where its request arrives, and taken apart on the ledger's thread. The system's allocator makes
/// that dear; this one is made for it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A resilient automation orchestrator: one durable ledger for everything that must be run and must not be lost.
#[derive(Debug, Parser)]
#[command(name = "bowline", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    connection: bowline_cli::Connection,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the server
    Serve(serve::ServeArgs),
    /// Execute commands on this host, and on hosts it reaches, for a server
    #[cfg(target_os = "linux")]
    Agent(Box<agent::AgentArgs>),
    /// Supervise one run until it has ended. Started by agents
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Keeper {
        /// The run directory
        run_dir: std::path::PathBuf,
    },
    /// Migrate the ledger to this version, and exit
    Migrate(migrate::MigrateArgs),
    /// Check that the ledger is consistent, and verify the audit trail
    Verify(verify::VerifyArgs),
    /// Check this installation for problems
    Doctor(doctor::DoctorArgs),
    /// Measure this machine's throughput
    Bench(bench::BenchArgs),
    /// Print a completion script for a shell
    #[command(after_help = "Examples:
  bowline completions bash > /etc/bash_completion.d/bowline
  bowline completions zsh > \"${fpath[1]}/_bowline\"
  bowline completions fish > ~/.config/fish/completions/bowline.fish")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages of all commands to a directory, or print one
    #[command(after_help = "Examples:
  bowline man --dir /usr/local/share/man/man1
  bowline man | man -l -")]
    Man {
        /// Where to write them, one file for each command [default: print the page of bowline itself]
        #[arg(long, value_name = "DIR")]
        dir: Option<std::path::PathBuf>,
    },
    #[command(flatten)]
    Client(bowline_cli::ClientCommand),
}

fn main() -> ExitCode {
    let mut cli = Cli::parse();
    let named_context = cli.connection.context.is_some();
    cli.connection.read_environment();
    // These two look for no context of their own accord; one on the command line says which server is meant.
    if named_context && matches!(cli.command, Command::Agent(_) | Command::Doctor(_)) {
        match bowline_cli::apply_context(&cli.connection) {
            Ok(connection) => cli.connection = connection,
            Err(error) => {
                eprintln!("error: {error}");
                return ExitCode::from(2);
            }
        }
    }
    // A keeper changes what its whole process is, so there must not be a second thread yet.
    #[cfg(target_os = "linux")]
    if let Command::Keeper { run_dir } = &cli.command {
        return bowline_execute::keeper::main(run_dir);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let output = cli.connection.output();
    let done = match cli.command {
        Command::Serve(args) => runtime.block_on(serve::serve(args)),
        #[cfg(target_os = "linux")]
        Command::Agent(args) => runtime.block_on(agent::agent(*args, &cli.connection)),
        #[cfg(target_os = "linux")]
        Command::Keeper { .. } => Ok(ExitCode::FAILURE),
        Command::Migrate(args) => runtime.block_on(migrate::migrate(args, output)),
        Command::Verify(args) => runtime.block_on(verify::verify(args, output)),
        Command::Doctor(args) => runtime.block_on(doctor::doctor(args, &cli.connection)),
        Command::Bench(args) => runtime.block_on(bench::bench(args, output)),
        Command::Completions { shell } => shells::completions(shell, &mut Cli::command()),
        Command::Man { dir } => shells::man(dir.as_deref(), Cli::command()),
        Command::Client(command) => return runtime.block_on(bowline_cli::run(&cli.connection, command)),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command, CommandFactory};

    #[test]
    fn the_commands_are_well_formed() {
        super::Cli::command().debug_assert();
    }

    /// Every subcommand, with the words that lead to it.
    fn each_subcommand(command: &Command, path: &str, visit: &mut impl FnMut(&str, &Command)) {
        for subcommand in command.get_subcommands() {
            let path = format!("{path} {}", subcommand.get_name());
            visit(&path, subcommand);
            each_subcommand(subcommand, &path, visit);
        }
    }

    fn longs(arg: &Arg) -> Vec<&str> {
        arg.get_long().into_iter().chain(arg.get_all_aliases().unwrap_or_default()).collect()
    }

    fn shorts(arg: &Arg) -> Vec<char> {
        let aliases = arg.get_all_short_aliases().unwrap_or_default();
        arg.get_short().into_iter().chain(aliases).collect()
    }

    /// A global argument is known to every subcommand. One of the same id would be read as the global one, with its type; clap
    /// notices that only when the value is read.
    #[test]
    fn no_argument_of_a_subcommand_shadows_a_global_one() {
        let root = super::Cli::command();
        let globals: Vec<&Arg> = root.get_arguments().filter(|arg| arg.is_global_set()).collect();
        assert!(globals.iter().any(|arg| arg.get_id() == "output"), "there are global arguments");
        let mut shadows = Vec::new();
        each_subcommand(&root, "bowline", &mut |path, subcommand| {
            for arg in subcommand.get_arguments().filter(|arg| !arg.is_global_set()) {
                for global in &globals {
                    let same_id = arg.get_id() == global.get_id();
                    let same_long = longs(arg).iter().any(|long| longs(global).contains(long));
                    let same_short = shorts(arg).iter().any(|short| shorts(global).contains(short));
                    if same_id || same_long || same_short {
                        shadows.push(format!("{path}: {} shadows {}", arg.get_id(), global.get_id()));
                    }
                }
            }
        });
        assert!(shadows.is_empty(), "{shadows:#?}");
    }
}
