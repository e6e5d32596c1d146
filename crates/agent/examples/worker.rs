//! A worker with two task types, `demo.upper` and `demo.sum`; `examples/python/worker.py` does the same in Python.
//!
//! `BOWLINE_TOKEN=... cargo run -p bowline-agent --example worker -- w1`

use std::env;
use std::error::Error;
use std::process::ExitCode;

use bowline_agent::{CancellationToken, TaskContext, TaskError, Worker};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Deserialize)]
struct Upper {
    text: String,
}

#[derive(Deserialize)]
struct Sum {
    numbers: Vec<serde_json::Number>,
}

async fn upper(task: TaskContext) -> Result<Value, TaskError> {
    let Upper { text } = task.params()?;
    Ok(json!({ "text": text.to_uppercase() }))
}

async fn sum(task: TaskContext) -> Result<Value, TaskError> {
    let Sum { numbers } = task.params()?;
    // Whole numbers stay whole, as in the other example.
    if let Some(whole) = numbers.iter().map(serde_json::Number::as_i64).sum::<Option<i64>>() {
        return Ok(json!({ "sum": whole }));
    }
    Ok(json!({ "sum": numbers.iter().filter_map(serde_json::Number::as_f64).sum::<f64>() }))
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    match work().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn work() -> Result<(), Box<dyn Error>> {
    let name = env::args().nth(1).ok_or("usage: worker WORKER_ID")?;
    let token = env::var("BOWLINE_TOKEN").map_err(|_| "BOWLINE_TOKEN is not set")?;
    let url = env::var("BOWLINE_URL").unwrap_or_else(|_| "http://127.0.0.1:7420".to_owned());

    let worker = Worker::builder(&url, &token)
        .worker_id(&name)
        .slots(4)
        .task("demo.upper", upper)
        .task("demo.sum", sum)
        .build()?;

    // The first signal asks: finish what is in hand, tell it, and leave.
    let stop = CancellationToken::new();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let running = worker.run(stop.clone());
    tokio::pin!(running);
    tokio::select! {
        ended = &mut running => return Ok(ended?),
        _ = terminate.recv() => stop.cancel(),
        _ = interrupt.recv() => stop.cancel(),
    }
    Ok(running.await?)
}
