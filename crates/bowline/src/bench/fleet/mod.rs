//! `bowline bench fleet`: commands on many hosts, through the real agent protocol.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use self::agent_process::AgentProcess;
use super::client::{Line, post};
use super::figures::Figures;
use super::server::Measured;

mod agent_process;
mod agents;
mod backlog;
mod events;
mod fake_agent;
mod job;
mod output;
mod ssh;

/// An agent that plays hosts which answer at once.
const PLAYER: [&str; 6] = ["--reach", "simulate", "--latency", "0:0", "--slots", "10000"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// One job on many simulated hosts that answer at once, through an agent process
    Job,
    /// What a host costs in a large job against a small one
    Cost,
    /// Memory of the server with many agents connected and heartbeating
    Agents,
    /// Events of 1 KiB, reported in large batches
    Events,
    /// Output of one run, brought in ranges
    Output,
    /// What an agent has to tell after the server was away
    Backlog,
    /// Hosts reached by SSH; needs --ssh
    Ssh,
}

#[derive(Debug, Args)]
pub struct FleetArgs {
    /// Measure only these
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// Hosts of the job
    #[arg(long, default_value_t = 10_000)]
    hosts: usize,
    /// Hosts of the large job of the cost part
    #[arg(long, default_value_t = 100_000)]
    large: usize,
    /// Hosts of the small job of the cost part
    #[arg(long, default_value_t = 1_000)]
    small: usize,
    /// Agents that are connected
    #[arg(long, default_value_t = 1_000)]
    agents: usize,
    /// Seconds of the timed parts
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// MiB of output
    #[arg(long, default_value_t = 512)]
    output_mib: usize,
    /// Seconds that the server is away in the backlog part
    #[arg(long, default_value_t = 60)]
    outage: u64,
    /// Events that happen in each of them
    #[arg(long, default_value_t = 2_000)]
    event_rate: u64,
    /// A file with the facts of an sshd that simulates many hosts, as scripts/bench-ssh.sh writes it
    #[arg(long, value_name = "DIR")]
    ssh: Option<PathBuf>,
    /// Measure on this PostgreSQL database; it should be empty
    #[arg(long)]
    database_url: Option<String>,
    /// Write the figures to this file, too
    #[arg(long)]
    out: Option<PathBuf>,
}

impl FleetArgs {
    fn wants(&self, part: Part) -> bool {
        if self.only.is_empty() { part != Part::Ssh || self.ssh.is_some() } else { self.only.contains(&part) }
    }
}

pub async fn run(args: FleetArgs, output: Option<bowline_cli::Output>) -> anyhow::Result<ExitCode> {
    let directory = match std::env::var_os("BOWLINE_BENCH_DIR") {
        Some(base) => tempfile::tempdir_in(base)?,
        None => tempfile::tempdir()?,
    };
    let mut server = Measured::start(&directory.path().join("server"), args.database_url.as_deref()).await?;
    let mut figures = Figures::new(args.database_url.is_some(), output);
    if args.wants(Part::Agents) {
        figures.note("agents", agents::agents(&server, args.agents, args.seconds).await?);
    }
    if args.wants(Part::Job) || args.wants(Part::Cost) {
        let _agent = AgentProcess::join(&server, "bench", &directory.path().join("agent"), PLAYER).await?;
        if args.wants(Part::Job) {
            put_hosts(&server, "job", args.hosts).await?;
            // The first one also makes connections and caches; the second is what a user of a running server sees.
            let first = job::one_job(&server, "job", args.hosts).await?;
            let again = job::one_job(&server, "job", args.hosts).await?;
            let hosts = args.hosts;
            figures.note("job", json!({"hosts": hosts, "first_s": seconds(first), "again_s": seconds(again)}));
        }
        if args.wants(Part::Cost) {
            figures.note("cost", job::cost(&server, args.small, args.large).await?);
        }
    }
    if args.wants(Part::Events) {
        figures.note("events", events::events(&server, args.seconds).await?);
    }
    if args.wants(Part::Output) {
        figures.note("output", output::output(&server, args.output_mib).await?);
    }
    if args.wants(Part::Backlog) {
        let data = directory.path().join("backlog");
        figures.note("backlog", backlog::backlog(&mut server, &data, args.outage, args.event_rate).await?);
    }
    if args.wants(Part::Ssh) {
        let facts = args.ssh.as_deref().context("the ssh part needs --ssh; scripts/bench-ssh.sh gives it")?;
        figures.note("ssh", ssh::ssh(&server, &directory.path().join("ssh"), facts).await?);
    }
    figures.note("memory_mib", json!(server.memory_mib()?.round()));
    figures.finish(args.out.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

fn seconds(time: Duration) -> Value {
    json!((time.as_secs_f64() * 1_000.0).round() / 1_000.0)
}

/// The answer to one request.
async fn ask(server: &Measured, request: Vec<u8>) -> anyhow::Result<Value> {
    let mut line = Line::open(&server.address).await?;
    let (status, body) = line.send(&request).await?;
    ensure!((200..300).contains(&status), "{status}: {}", String::from_utf8_lossy(body));
    Ok(serde_json::from_slice(body)?)
}

/// Simulated hosts in an inventory of their own.
async fn put_hosts(server: &Measured, inventory: &str, count: usize) -> anyhow::Result<()> {
    let host = |n| json!({"name": format!("h{n:06}"), "connection": {"via": "simulate"}});
    put_all(server, inventory, (0..count).map(host).collect()).await
}

/// Hosts in an inventory of their own, put there ten thousand at a time.
async fn put_all(server: &Measured, inventory: &str, hosts: Vec<Value>) -> anyhow::Result<()> {
    for some in hosts.chunks(10_000) {
        let body = json!({"hosts": some}).to_string();
        let mut request = post(&format!("/inventories/{inventory}"), &server.token, &body);
        request.splice(..4, *b"PUT");
        ask(server, request).await?;
    }
    Ok(())
}
