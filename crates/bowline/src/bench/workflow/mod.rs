//! `bowline bench workflow`: runs of workflows, from many small ones to one that never seems to end.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::ensure;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use self::embedded::Embedded;
use super::client::{Line, post};
use super::figures::Figures;
use super::server::Measured;

mod embedded;
mod long;
mod pure;
mod sleeping;
mod tasks;
mod webhook;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// start, eight nodes that only calculate, end; in this process, many at a time
    Pure,
    /// Ten tasks in a row, executed by one remote worker over HTTP
    Tasks,
    /// One run of 10,000 steps in a loop: what the last ones cost against the first
    Long,
    /// Many runs asleep: memory, and how late they wake up
    Sleeping,
    /// Over HTTP: a request, a condition, two variables, the answer
    Webhook,
}

#[derive(Debug, Args)]
pub struct WorkflowArgs {
    /// Measure only these
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// Runs at a time of the pure and tasks parts
    #[arg(long, default_value_t = 100)]
    at_a_time: usize,
    /// Seconds of the timed parts
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Runs that sleep
    #[arg(long, default_value_t = 100_000)]
    sleepers: usize,
    /// Runs a second that wake up
    #[arg(long, default_value_t = 500)]
    wake_rate: u64,
    /// Connections of the webhook part, one measurement for each
    #[arg(long, value_delimiter = ',', default_value = "1,10,50")]
    connections: Vec<usize>,
    /// Measure on this PostgreSQL database; it should be empty
    #[arg(long)]
    database_url: Option<String>,
    /// Write the figures to this file, too
    #[arg(long)]
    out: Option<PathBuf>,
}

impl WorkflowArgs {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

pub async fn run(args: WorkflowArgs, output: Option<bowline_cli::Output>) -> anyhow::Result<ExitCode> {
    let directory = match std::env::var_os("BOWLINE_BENCH_DIR") {
        Some(base) => tempfile::tempdir_in(base)?,
        None => tempfile::tempdir()?,
    };
    let url = args.database_url.as_deref();
    let mut figures = Figures::new(url.is_some(), output);
    if args.wants(Part::Pure) || args.wants(Part::Long) {
        let house = Embedded::open(&directory.path().join("embedded"), url).await?;
        if args.wants(Part::Pure) {
            figures.note("pure", pure::pure(&house, args.at_a_time, args.seconds).await?);
        }
        if args.wants(Part::Long) {
            figures.note("long", long::long(&house).await?);
        }
        house.close().await;
    }
    if args.wants(Part::Webhook) || args.wants(Part::Tasks) || args.wants(Part::Sleeping) {
        let server = Measured::start(&directory.path().join("server"), url).await?;
        if args.wants(Part::Webhook) {
            figures.note("webhook", webhook::webhook(&server, &args.connections, args.seconds).await?);
        }
        if args.wants(Part::Tasks) {
            figures.note("tasks", tasks::tasks(&server, args.at_a_time, args.seconds).await?);
        }
        if args.wants(Part::Sleeping) {
            figures.note("sleeping", sleeping::sleeping(&server, args.sleepers, args.wake_rate, args.seconds).await?);
        }
    }
    figures.finish(args.out.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

/// Stores a workflow under a name, as its first version.
async fn put_workflow(server: &Measured, name: &str, definition: &Value) -> anyhow::Result<()> {
    let mut line = Line::open(&server.address).await?;
    let body = json!({"spec": definition}).to_string();
    let mut request = post(&format!("/resources/workflow/{name}"), &server.token, &body);
    request.splice(..4, *b"PUT");
    let (status, answer) = line.send(&request).await?;
    ensure!((200..300).contains(&status), "{status}: {}", String::from_utf8_lossy(answer));
    Ok(())
}

/// Nodes in a row, from `start` to `end`.
fn row(middle: Vec<Value>) -> Value {
    let mut nodes = vec![json!({"id": "start", "type": "start"})];
    nodes.extend(middle);
    nodes.push(json!({"id": "end", "type": "end"}));
    let edges: Vec<Value> =
        nodes.windows(2).map(|pair| json!({"source": pair[0]["id"], "target": pair[1]["id"]})).collect();
    json!({"nodes": nodes, "edges": edges})
}

fn per_second(count: u64, seconds: f64) -> Value {
    json!((count as f64 / seconds).round())
}
