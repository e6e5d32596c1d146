//! `bowline bench fleet`: commands on many hosts, through the real agent protocol.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;

use super::client::{Line, get, post};
use super::fake_agent::FakeAgent;
use super::figures::Figures;
use super::server::Measured;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// One job on many simulated hosts that answer at once, through an agent process
    Job,
    /// What a host costs in a large job against a small one
    Cost,
    /// Memory of the server with many agents connected and heartbeating
    Agents,
    /// Events of 1 KiB, told in large batches
    Events,
    /// Output of one run, brought in ranges
    Output,
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
    /// Measure on this PostgreSQL database; it should be empty
    #[arg(long)]
    database_url: Option<String>,
    /// Write the figures to this file, too
    #[arg(long)]
    out: Option<PathBuf>,
}

impl FleetArgs {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// A program that goes when this goes.
struct AgentProcess(Child);

impl Drop for AgentProcess {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

pub async fn run(args: FleetArgs, json: bool) -> anyhow::Result<ExitCode> {
    let directory = match std::env::var_os("BOWLINE_BENCH_DIR") {
        Some(base) => tempfile::tempdir_in(base)?,
        None => tempfile::tempdir()?,
    };
    let server = Measured::start(&directory.path().join("server"), args.database_url.as_deref()).await?;
    let mut figures = Figures::new(args.database_url.is_some(), json);
    if args.wants(Part::Agents) {
        figures.note("agents", agents(&server, args.agents, args.seconds).await?);
    }
    if args.wants(Part::Job) || args.wants(Part::Cost) {
        let _agent = start_agent(&server, directory.path()).await?;
        if args.wants(Part::Job) {
            put_hosts(&server, "job", args.hosts).await?;
            // The first one also makes connections and caches; the second is what a user of a running server sees.
            let first = one_job(&server, "job", args.hosts).await?;
            let again = one_job(&server, "job", args.hosts).await?;
            let hosts = args.hosts;
            figures.note("job", json!({"hosts": hosts, "first_s": seconds(first), "again_s": seconds(again)}));
        }
        if args.wants(Part::Cost) {
            figures.note("cost", cost(&server, args.small, args.large).await?);
        }
    }
    if args.wants(Part::Events) {
        figures.note("events", events(&server, args.seconds).await?);
    }
    if args.wants(Part::Output) {
        figures.note("output", output(&server, args.output_mib).await?);
    }
    figures.note("memory_mib", json!(server.memory_mib()?.round()));
    figures.finish(args.out.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

fn seconds(time: Duration) -> Value {
    json!((time.as_secs_f64() * 1_000.0).round() / 1_000.0)
}

async fn call(server: &Measured, request: Vec<u8>) -> anyhow::Result<Value> {
    let mut line = Line::open(&server.address).await?;
    let (status, body) = line.send(&request).await?;
    ensure!((200..300).contains(&status), "{status}: {}", String::from_utf8_lossy(body));
    Ok(serde_json::from_slice(body)?)
}

/// An agent process that plays hosts which answer at once.
async fn start_agent(server: &Measured, directory: &Path) -> anyhow::Result<AgentProcess> {
    let body = json!({"kind": "join", "name": "bench"}).to_string();
    let join = call(server, post("/tokens", &server.token, &body)).await?;
    let join = join["token"].as_str().context("no join token")?.to_owned();
    let program = std::env::current_exe().context("this program cannot be found")?;
    let mut command = Command::new(program);
    command
        .args(["agent", "--server", &format!("http://{}", server.address), "--join", &join, "--name", "bench"])
        .args(["--reach", "simulate", "--latency", "0:0", "--slots", "10000", "--data"])
        .arg(directory.join("agent"))
        .env("LOG_LEVEL", "warn")
        .stdout(Stdio::null());
    let mut agent = AgentProcess(command.spawn().context("the agent cannot be started")?);
    let begun = Instant::now();
    loop {
        let workers = call(server, get("/workers", &server.token)).await?;
        if workers["workers"].as_array().is_some_and(|list| list.iter().any(|worker| worker["worker_id"] == "bench")) {
            return Ok(agent);
        }
        if let Some(status) = agent.0.try_wait()? {
            bail!("the agent ended at once: {status}");
        }
        ensure!(begun.elapsed() < Duration::from_secs(30), "the agent has not registered after 30 seconds");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Simulated hosts in an inventory of their own, put there ten thousand at a time.
async fn put_hosts(server: &Measured, inventory: &str, count: usize) -> anyhow::Result<()> {
    let mut made = 0;
    while made < count {
        let end = count.min(made + 10_000);
        let hosts: Vec<Value> =
            (made..end).map(|n| json!({"name": format!("h{n:06}"), "connection": {"via": "simulate"}})).collect();
        let body = json!({"hosts": hosts}).to_string();
        let mut request = post(&format!("/inventories/{inventory}"), &server.token, &body);
        request.splice(..4, *b"PUT");
        call(server, request).await?;
        made = end;
    }
    Ok(())
}

/// From the request to the moment when every host has ended.
async fn one_job(server: &Measured, inventory: &str, hosts: usize) -> anyhow::Result<Duration> {
    let body = json!({"command": {"argv": ["true"]}, "inventory": inventory, "selector": "all"}).to_string();
    let begun = Instant::now();
    let job = call(server, post("/jobs", &server.token, &body)).await?;
    let job = job["job_id"].as_str().context("no job")?.to_owned();
    let path = format!("/jobs/{job}");
    let mut line = Line::open(&server.address).await?;
    loop {
        let (_, body) = line.send(&get(&path, &server.token)).await?;
        let shown: Value = serde_json::from_slice(body)?;
        match shown["job"]["status"].as_str() {
            Some("success") => {
                let taken = begun.elapsed();
                ensure!(shown["command"]["hosts"]["by_status"]["success"] == hosts, "{shown}");
                return Ok(taken);
            }
            Some("running" | "pending") => {}
            _ => bail!("the job ended badly: {shown}"),
        }
        ensure!(begun.elapsed() < Duration::from_secs(600), "the job takes longer than ten minutes: {shown}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What a host costs in a large job against a small one. The small one is done several times, so that both are long
/// enough to be measured.
async fn cost(server: &Measured, small: usize, large: usize) -> anyhow::Result<Value> {
    put_hosts(server, "small", small).await?;
    put_hosts(server, "large", large).await?;
    one_job(server, "small", small).await?;
    let times = 10;
    let mut in_small = Duration::ZERO;
    for _ in 0..times {
        in_small += one_job(server, "small", small).await?;
    }
    let in_large = one_job(server, "large", large).await?;
    let small_us = in_small.as_secs_f64() * 1e6 / (times * small) as f64;
    let large_us = in_large.as_secs_f64() * 1e6 / large as f64;
    Ok(json!({
        "small_hosts": small, "large_hosts": large, "small_us_per_host": small_us.round(),
        "large_us_per_host": large_us.round(), "ratio": (large_us / small_us * 100.0).round() / 100.0,
    }))
}

/// Many agents that wait for tasks and beat, as real ones do when there is nothing to do.
async fn agents(server: &Measured, count: usize, seconds: u64) -> anyhow::Result<Value> {
    let idle = server.memory_mib()?;
    let mut all = Vec::with_capacity(count);
    for n in 0..count {
        all.push(FakeAgent::join(server, &format!("agent-{n:05}"), json!({})).await?);
    }
    let (beats, failures) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    let until = Instant::now() + Duration::from_secs(seconds);
    for (n, agent) in all.into_iter().enumerate() {
        let (address, beats, failures) = (server.address.clone(), Arc::clone(&beats), Arc::clone(&failures));
        tasks.spawn(async move {
            // Not all at the same moment.
            tokio::time::sleep(Duration::from_millis((n % 1_000) as u64 * 8)).await;
            if wait_and_beat(&address, &agent, until, &beats).await.is_err() {
                failures.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(seconds.saturating_sub(1))).await;
    let memory = server.memory_mib()?;
    tasks.join_all().await;
    Ok(json!({
        "agents": count, "server_mib_idle": idle.round(), "server_mib": memory.round(),
        "heartbeats": beats.load(Ordering::Relaxed), "failures": failures.load(Ordering::Relaxed),
    }))
}

async fn wait_and_beat(address: &str, agent: &FakeAgent, until: Instant, beats: &AtomicU64) -> anyhow::Result<()> {
    let (mut polls, mut beating) = (Line::open(address).await?, Line::open(address).await?);
    let poll = get(&format!("/workers/{}/tasks?max=10&wait=5000", agent.name), &agent.token);
    let beat = post(&format!("/workers/{}/heartbeat", agent.name), &agent.token, "{\"runs\":[]}");
    while Instant::now() < until {
        let (polled, beaten) = tokio::join!(polls.send(&poll), beating.send(&beat));
        let ((polled, _), (beaten, _)) = (polled?, beaten?);
        ensure!(polled == 200 && beaten == 200, "{polled} {beaten}");
        beats.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Events of 1 KiB of many runs, told as fast as they are taken.
async fn events(server: &Measured, seconds: u64) -> anyhow::Result<Value> {
    const RUNS: usize = 100;
    const BATCH: usize = 20;
    put_hosts(server, "events", RUNS).await?;
    let agent = FakeAgent::join(server, "events", json!({"bowline/reach": "simulate"})).await?;
    let body = json!({"command": {"argv": ["true"]}, "inventory": "events", "selector": "all"}).to_string();
    call(server, post("/jobs", &server.token, &body)).await?;
    let runs = agent.tasks(server, RUNS).await?;
    let filler = "x".repeat(960);
    let told = Arc::new(AtomicU64::new(0));
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut lines = JoinSet::new();
    for own in runs.chunks(RUNS / 4) {
        let (own, address, path) = (own.to_vec(), server.address.clone(), format!("/workers/{}/events", agent.name));
        let (token, filler, told) = (agent.token.clone(), filler.clone(), Arc::clone(&told));
        lines.spawn(async move {
            let mut line = Line::open(&address).await?;
            let mut seq = 0;
            while Instant::now() < until {
                let news: Vec<Value> = own
                    .iter()
                    .map(|run| {
                        let events: Vec<Value> =
                            (1..=BATCH).map(|n| json!({"seq": seq + n, "data": {"text": filler}})).collect();
                        json!({"run_id": run, "fence": 1, "events": events})
                    })
                    .collect();
                let body = json!({"runs": news}).to_string();
                let (status, answer) = line.send(&post(&path, &token, &body)).await?;
                ensure!(status == 200, "{status}: {}", String::from_utf8_lossy(answer));
                seq += BATCH;
                told.fetch_add((own.len() * BATCH) as u64, Ordering::Relaxed);
            }
            Ok::<_, anyhow::Error>(())
        });
    }
    let begun = Instant::now();
    for line in lines.join_all().await {
        line?;
    }
    let rate = told.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
    Ok(json!({"bytes_each": 1_024, "per_second": rate.round()}))
}

/// Output of one run, in ranges of a MiB, packed as agents pack it. The text is such as programs print: it gets smaller.
async fn output(server: &Measured, mib: usize) -> anyhow::Result<Value> {
    put_hosts(server, "output", 1).await?;
    let agent = FakeAgent::join(server, "output", json!({"bowline/reach": "simulate"})).await?;
    let body = json!({"command": {"argv": ["true"]}, "inventory": "output", "selector": "all"}).to_string();
    call(server, post("/jobs", &server.token, &body)).await?;
    let run = agent.tasks(server, 1).await?.remove(0);
    let mut line = Line::open(&server.address).await?;
    let begun = Instant::now();
    let mut offset = 0;
    for n in 0..mib {
        let mut text = String::with_capacity((1 << 20) + 64);
        let mut number = n * 100_000;
        while text.len() < 1 << 20 {
            text.push_str(&format!("line {number} of the output of a program that says what it does\n"));
            number += 1;
        }
        text.truncate(1 << 20);
        let hash: String = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        let packed = zstd::bulk::compress(text.as_bytes(), 1)?;
        let head = format!(
            "PUT /runs/{run}/output/stdout?offset={offset} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {}\r\n\
             content-encoding: zstd\r\nx-raw-length: {}\r\nx-content-sha256: {hash}\r\ncontent-length: {}\r\n\r\n",
            agent.token,
            text.len(),
            packed.len()
        );
        let mut request = head.into_bytes();
        request.extend_from_slice(&packed);
        let (status, answer) = line.send(&request).await?;
        ensure!(status == 200, "{status}: {}", String::from_utf8_lossy(answer));
        offset += text.len();
    }
    let mb = offset as f64 / 1e6;
    Ok(json!({"mb": mb.round(), "mb_per_second": (mb / begun.elapsed().as_secs_f64()).round()}))
}
