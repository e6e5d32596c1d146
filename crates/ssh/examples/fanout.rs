//! Runs one command on many targets at once and says how long that took.
//!
//! `fanout` starts an sshd of its own that plays all targets (127.0.0.1, 127.0.0.2, …), runs, and prints its figures.
//! `fanout --serve DIRECTORY` only starts it and writes there what other tools need to do the same, until its standard
//! input ends; `fanout --served DIRECTORY` runs against it. So all are measured on one server.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bowline_ssh::{Collected, RemoteCommand, SshPool, SshSettings, Target};
use bowline_testkit::Sshd;
use clap::Parser;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

#[derive(Parser)]
#[command(about = "Runs one command on many loopback targets at once and says how long that took")]
struct Arguments {
    /// How many targets.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=16_000_000))]
    targets: u32,
    /// Logins under way at once.
    #[arg(long, default_value_t = 64)]
    handshakes: usize,
    /// How often; from the second time on, connections are open.
    #[arg(long, default_value_t = 2)]
    rounds: u32,
    /// Commands at once.
    #[arg(long, default_value_t = 100_000)]
    parallel: usize,
    /// Start the server for others, and write its facts into this directory.
    #[arg(long, conflicts_with = "served")]
    serve: Option<PathBuf>,
    /// Use the server that was started so.
    #[arg(long)]
    served: Option<PathBuf>,
    /// The command.
    #[arg(trailing_var_arg = true)]
    command: Vec<String>,
}

/// What a client must know of the server.
struct Facts {
    user: String,
    port: u16,
    key: PathBuf,
    known_hosts: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let hosts: Vec<String> = (1..=arguments.targets).map(host).collect();
    let own = match &arguments.served {
        Some(_) => None,
        None => Some(Sshd::options().every_loopback_address().start()),
    };
    let facts = match (&own, &arguments.served) {
        (Some(server), _) => Facts {
            user: server.user().to_owned(),
            port: server.port(),
            key: server.client_key(),
            known_hosts: server.known_hosts(hosts.iter().map(String::as_str)),
        },
        (None, Some(directory)) => read_facts(directory)?,
        (None, None) => bail!("no server"),
    };
    if let Some(directory) = &arguments.serve {
        write_facts(directory, &facts, &hosts)?;
        println!("serving; ends with standard input");
        std::io::stdin().read_to_end(&mut Vec::new())?;
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(&arguments, facts, &hosts))
}

fn host(number: u32) -> String {
    format!("127.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255)
}

async fn measure(arguments: &Arguments, facts: Facts, hosts: &[String]) -> anyhow::Result<()> {
    let mut settings = SshSettings::new(facts.user);
    settings.key_files = vec![facts.key];
    settings.known_hosts = vec![facts.known_hosts];
    settings.handshakes_max = arguments.handshakes;
    settings.connections_max = hosts.len();
    settings.connect_timeout = Duration::from_secs(60);
    let pool = Arc::new(SshPool::new(settings)?);
    let argv = if arguments.command.is_empty() { vec!["true".to_owned()] } else { arguments.command.clone() };
    let command = Arc::new(RemoteCommand::new(argv));
    let turns = Arc::new(tokio::sync::Semaphore::new(arguments.parallel));
    for round in 1..=arguments.rounds {
        let started_at = Instant::now();
        let mut tasks = JoinSet::new();
        for host in hosts {
            let target = Target::new(host).with_port(facts.port);
            let (pool, command, turns) = (Arc::clone(&pool), Arc::clone(&command), Arc::clone(&turns));
            tasks.spawn(async move {
                let _turn = turns.acquire().await;
                let mut sink = Collected::up_to(1 << 16);
                pool.exec(&target, &command, &mut sink, CancellationToken::new()).await
            });
        }
        let (mut good, mut bad) = (0, Vec::new());
        while let Some(end) = tasks.join_next().await {
            match end? {
                Ok(exit) if exit.is_success() => good += 1,
                other => bad.push(other),
            }
        }
        let took = started_at.elapsed();
        let each = f64::from(good) / took.as_secs_f64();
        println!("round {round}: {good} targets in {:.3} s, {each:.0}/s, {} failed", took.as_secs_f64(), bad.len());
        if let Some(first) = bad.first() {
            println!("  the first failure: {first:?}");
        }
    }
    println!("{} connections, {} KiB resident", pool.connections(), resident_kib());
    pool.close().await;
    Ok(())
}

fn resident_kib() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4
}

fn write_facts(directory: &Path, facts: &Facts, hosts: &[String]) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)?;
    let text = format!("{}\n{}\n{}\n{}\n", facts.user, facts.port, facts.key.display(), facts.known_hosts.display());
    std::fs::write(directory.join("facts"), text)?;
    let mut list = hosts.join("\n");
    list.push('\n');
    std::fs::write(directory.join("hosts"), list)?;
    Ok(())
}

fn read_facts(directory: &Path) -> anyhow::Result<Facts> {
    let text = std::fs::read_to_string(directory.join("facts")).context("cannot read the facts")?;
    let mut lines = text.lines();
    let mut next = || lines.next().context("the facts are not complete");
    Ok(Facts { user: next()?.to_owned(), port: next()?.parse()?, key: next()?.into(), known_hosts: next()?.into() })
}
