//! `bowline bench jobs`: durable jobs, end to end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::client::{Line, get, post};
use super::figures::{Figures, quantiles};
use super::server::Measured;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// No-op jobs submitted in batches, until the last one is done
    Batched,
    /// Single submissions over many connections
    Single,
    /// From a request to the start of its run, at a steady rate, with the built-in worker
    Latency,
    /// The same through one remote worker that long-polls
    Remote,
    /// Resident memory, idle and with many jobs queued
    Memory,
    /// Throughput and start-up with many jobs already in the ledger
    Scale,
}

#[derive(Debug, Args)]
pub struct JobsArgs {
    /// Measure only these
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// Jobs of the batched part
    #[arg(long, default_value_t = 100_000)]
    jobs: usize,
    /// Jobs in a batch
    #[arg(long, default_value_t = 500)]
    batch: usize,
    /// Seconds of the timed parts
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Jobs a second of the latency parts
    #[arg(long, default_value_t = 200)]
    rate: u64,
    /// Finished jobs, and scheduled ones, that the scale part puts into the ledger first
    #[arg(long, default_value_t = 1_000_000)]
    scale: usize,
    /// Measure on this PostgreSQL database; it should be empty
    #[arg(long)]
    database_url: Option<String>,
    /// Write the figures to this file, too
    #[arg(long)]
    out: Option<PathBuf>,
}

impl JobsArgs {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

pub async fn run(args: JobsArgs, output: Option<bowline_cli::Output>) -> anyhow::Result<ExitCode> {
    let directory = match std::env::var_os("BOWLINE_BENCH_DIR") {
        Some(base) => tempfile::tempdir_in(base)?,
        None => tempfile::tempdir()?,
    };
    let server = Measured::start(directory.path(), args.database_url.as_deref()).await?;
    let mut figures = Figures::new(args.database_url.is_some(), output);
    figures.note("ready_ms_empty", round(server.ready_ms));
    if args.wants(Part::Memory) {
        let idle = server.memory_mib()?;
        figures.note("memory_idle_mib", round(idle));
    }
    if args.wants(Part::Latency) {
        figures.note("latency", latency(&server, args.rate, args.seconds).await?);
    }
    if args.wants(Part::Remote) {
        figures.note("remote_latency", remote(&server, args.rate, args.seconds).await?);
    }
    if args.wants(Part::Batched) {
        figures.note("batched", batched(&server, args.jobs, args.batch).await?);
    }
    if args.wants(Part::Single) {
        figures.note("single", single(&server, args.seconds).await?);
    }
    if args.wants(Part::Memory) {
        figures.note("memory_100k_queued_mib", round(queued_memory(&server).await?));
    }
    if args.wants(Part::Scale) {
        drop(server);
        figures.note("scale", scale(&args, directory.path()).await?);
    }
    figures.finish(args.out.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

fn round(value: f64) -> Value {
    json!((value * 10.0).round() / 10.0)
}

fn batch_body(kind: &str, count: usize, rest: &str) -> String {
    let one = format!(r#"{{"type":"{kind}","payload":{{"n":1}}{rest}}}"#);
    let jobs = vec![one; count];
    format!(r#"{{"jobs":[{}]}}"#, jobs.join(","))
}

/// What waits or runs in the lane that is measured. What is only there to be kept lies in another one.
async fn in_flight(line: &mut Line, request: &[u8]) -> anyhow::Result<u64> {
    let (status, body) = line.send(request).await?;
    ensure!(status == 200, "GET /lanes answered {status}");
    let value: Value = serde_json::from_slice(body)?;
    let lanes = value["lanes"].as_array().context("no lanes")?;
    let measured = lanes.iter().filter(|l| l["lane"] == "default");
    Ok(measured.map(|l| l["queued"].as_u64().unwrap_or(0) + l["running"].as_u64().unwrap_or(0)).sum())
}

async fn until_done(server: &Measured) -> anyhow::Result<()> {
    let mut line = Line::open(&server.address).await?;
    let request = get("/lanes", &server.token);
    loop {
        let asked = Instant::now();
        let left = in_flight(&mut line, &request).await?;
        if left == 0 {
            return Ok(());
        }
        // Asking must not become the load: the longer the answer took, the longer the pause.
        let pause = Duration::from_millis(if left > 5_000 { 100 } else { 5 });
        tokio::time::sleep(pause.max(asked.elapsed() * 5)).await;
    }
}

async fn submit_batches(
    server: &Measured,
    jobs: usize,
    batch: usize,
    connections: usize,
    kind: &str,
    rest: &str,
) -> anyhow::Result<()> {
    let request = Arc::new(post("/jobs/batch", &server.token, &batch_body(kind, batch, rest)));
    let left = Arc::new(AtomicU64::new((jobs / batch) as u64));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..connections {
        let (request, left, address) = (Arc::clone(&request), Arc::clone(&left), server.address.clone());
        tasks.spawn(async move {
            let mut line = Line::open(&address).await?;
            while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok() {
                loop {
                    let (status, body) = line.send(&request).await?;
                    match status {
                        202 => break,
                        503 => tokio::time::sleep(Duration::from_millis(50)).await,
                        _ => bail!("a batch was answered {status}: {}", String::from_utf8_lossy(body)),
                    }
                }
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

async fn batched(server: &Measured, jobs: usize, batch: usize) -> anyhow::Result<Value> {
    // A little first, so that caches and plans are warm.
    submit_batches(server, jobs / 20, batch, 2, "noop", "").await?;
    until_done(server).await?;
    let started = Instant::now();
    submit_batches(server, jobs, batch, 4, "noop", "").await?;
    let accepted = started.elapsed();
    until_done(server).await?;
    let done = started.elapsed();
    let rate = |time: Duration| ((jobs / batch * batch) as f64 / time.as_secs_f64()).round();
    Ok(json!({
        "jobs": jobs, "batch": batch,
        "accepted_per_s": rate(accepted), "end_to_end_per_s": rate(done),
    }))
}

async fn single(server: &Measured, seconds: u64) -> anyhow::Result<Value> {
    const CONNECTIONS: usize = 64;
    let request = Arc::new(post("/jobs", &server.token, r#"{"type":"noop","payload":{"n":1}}"#));
    let accepted = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let until = started + Duration::from_secs(seconds);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (request, accepted, address) = (Arc::clone(&request), Arc::clone(&accepted), server.address.clone());
        tasks.spawn(async move {
            let mut line = Line::open(&address).await?;
            while Instant::now() < until {
                let (status, body) = line.send(&request).await?;
                match status {
                    202 => {
                        accepted.fetch_add(1, Ordering::Relaxed);
                    }
                    503 => tokio::time::sleep(Duration::from_millis(20)).await,
                    _ => bail!("a job was answered {status}: {}", String::from_utf8_lossy(body)),
                }
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let took = started.elapsed();
    let count = accepted.load(Ordering::Relaxed);
    until_done(server).await?;
    let done = started.elapsed();
    Ok(json!({
        "connections": CONNECTIONS, "seconds": seconds, "jobs": count,
        "accepted_per_s": (count as f64 / took.as_secs_f64()).round(),
        "end_to_end_per_s": (count as f64 / done.as_secs_f64()).round(),
    }))
}

/// Microseconds of the wall clock, by which client and server both stamp.
#[expect(clippy::disallowed_methods, reason = "both sides of a measurement stamp by the machine's clock")]
pub fn wall_us() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |d| u64::try_from(d.as_micros()).unwrap_or(0))
}

/// Open loop: a request leaves when its moment has come, whatever became of the ones before. Answers the job's id and when
/// its request left, for each.
async fn steady(server: &Measured, kind: &str, rate: u64, seconds: u64) -> anyhow::Result<Vec<(String, u64)>> {
    let request = Arc::new(post("/jobs", &server.token, &format!(r#"{{"type":"{kind}","payload":null}}"#)));
    const LINES: usize = 16;
    let mut tasks = tokio::task::JoinSet::new();
    let started = tokio::time::Instant::now() + Duration::from_millis(200);
    let gap = Duration::from_secs(1) / u32::try_from(rate.max(1)).unwrap_or(200);
    let count = rate * seconds;
    for n in 0..LINES {
        let (request, address) = (Arc::clone(&request), server.address.clone());
        tasks.spawn(async move {
            let mut line = Line::open(&address).await?;
            let mut sent = Vec::new();
            for k in (n as u64..count).step_by(LINES) {
                let due = started + gap * u32::try_from(k).unwrap_or(0);
                // A request that could not leave because the one before it was not answered has been waiting since it was
                // due; the slack of the timer is not the server's.
                let late = tokio::time::Instant::now().saturating_duration_since(due);
                tokio::time::sleep_until(due).await;
                let left = wall_us() - u64::try_from(late.as_micros()).unwrap_or(0);
                let (status, body) = line.send(&request).await?;
                ensure!(status == 202, "a job was answered {status}");
                let answer: Value = serde_json::from_slice(body)?;
                sent.push((answer["job_id"].as_str().unwrap_or("").to_owned(), left));
            }
            anyhow::Ok(sent)
        });
    }
    let mut all = Vec::new();
    while let Some(done) = tasks.join_next().await {
        all.extend(done??);
    }
    Ok(all)
}

async fn latency(server: &Measured, rate: u64, seconds: u64) -> anyhow::Result<Value> {
    drop(steady(server, "bench.stamp", rate, 1).await?);
    let sent = steady(server, "bench.stamp", rate, seconds).await?;
    until_done(server).await?;
    let mut line = Line::open(&server.address).await?;
    let mut millis = Vec::with_capacity(sent.len());
    for (job, left) in sent {
        let (_, body) = line.send(&get(&format!("/jobs/{job}"), &server.token)).await?;
        let answer: Value = serde_json::from_slice(body)?;
        let started = answer["job"]["result"]["started_us"].as_u64().context("a job without its stamp")?;
        millis.push(started.saturating_sub(left) as f64 / 1_000.0);
    }
    let mut figures = quantiles(millis);
    figures["rate_per_s"] = rate.into();
    Ok(figures)
}

async fn remote(server: &Measured, rate: u64, seconds: u64) -> anyhow::Result<Value> {
    let mut line = Line::open(&server.address).await?;
    let body = r#"{"kind":"worker","name":"bench-worker"}"#;
    let (status, answer) = line.send(&post("/tokens", &server.token, body)).await?;
    ensure!(status == 201, "no token: {status}");
    let answer: Value = serde_json::from_slice(answer)?;
    let token = answer["token"].as_str().context("no token")?.to_owned();
    let register = r#"{"worker_id":"bench-worker","task_types":["bench.remote"],"slots":64}"#;
    let (status, _) = line.send(&post("/workers/register", &token, register)).await?;
    ensure!(status == 200, "not registered: {status}");
    let address = server.address.clone();
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = async {
        let mut seen: BTreeMap<String, u64> = BTreeMap::new();
        let mut poll = Line::open(&address).await?;
        let mut results = Line::open(&address).await?;
        let request = get("/workers/bench-worker/tasks?max=64&wait=500", &token);
        while stopped.try_recv().is_err() {
            let (status, body) = poll.send(&request).await?;
            let now = wall_us();
            ensure!(status == 200, "a poll was answered {status}");
            let tasks: Vec<Value> = serde_json::from_slice(body)?;
            for task in tasks {
                seen.insert(task["job_id"].as_str().unwrap_or("").to_owned(), now);
                let done = json!({"task_id": task["task_id"], "status": "success"}).to_string();
                let (status, _) = results.send(&post("/tasks/result", &token, &done)).await?;
                ensure!(status == 200, "a result was answered {status}");
            }
        }
        anyhow::Ok(seen)
    };
    let client = async {
        drop(steady(server, "bench.remote", rate, 1).await?);
        let sent = steady(server, "bench.remote", rate, seconds).await?;
        until_done(server).await?;
        let _ = stop.send(());
        anyhow::Ok(sent)
    };
    let (seen, sent) = tokio::try_join!(worker, client)?;
    let millis = sent.iter().filter_map(|(job, left)| {
        let started = seen.get(job)?;
        Some(started.saturating_sub(*left) as f64 / 1_000.0)
    });
    let mut figures = quantiles(millis.collect());
    figures["rate_per_s"] = rate.into();
    Ok(figures)
}

async fn queued_memory(server: &Measured) -> anyhow::Result<f64> {
    // Nobody takes this type, so they stay in the queue.
    submit_batches(server, 100_000, 500, 4, "bench.nobody", r#","lane":"low""#).await?;
    server.memory_mib()
}

async fn scale(args: &JobsArgs, directory: &std::path::Path) -> anyhow::Result<Value> {
    let url = args.database_url.as_deref();
    let server = Measured::start(directory, url).await?;
    let empty = batched(&server, args.jobs, args.batch).await?;
    submit_batches(&server, args.scale, 500, 4, "noop", "").await?;
    until_done(&server).await?;
    submit_batches(&server, args.scale, 500, 4, "noop", r#","run_at":"2035-01-01T00:00:00Z""#).await?;
    let full = batched(&server, args.jobs, args.batch).await?;
    let memory = server.memory_mib()?;
    drop(server);
    let again = Measured::start(directory, url).await?;
    let rate = |v: &Value| v["end_to_end_per_s"].as_f64().unwrap_or(0.0);
    Ok(json!({
        "finished": args.scale, "scheduled": args.scale,
        "before": empty, "after": full, "ratio": (rate(&full) / rate(&empty) * 100.0).round() / 100.0,
        "memory_mib": round(memory), "ready_ms": again.ready_ms.round(),
    }))
}
