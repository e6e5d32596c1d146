//! What an agent has to tell after the server was away: how soon the ledger has all of it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bowline_execute::{Ended, EndedAs, Happening, Inside, Manifest, Runs, Secrets, Settings};
use bowline_model::Timestamp;
use serde_json::{Value, json};

use super::agent_process::AgentProcess;
use super::fake_agent::FakeAgent;
use super::{PLAYER, job, put_hosts, seconds};
use crate::bench::client::get;
use crate::bench::server::Measured;

const RUNS: usize = 100;

/// Runs are handed to an agent, and the server dies. For the whole time it is away, events happen and are written into the
/// runs' logs, as their keepers write them. Then the server comes back, and the agent tells it everything.
pub(super) async fn backlog(server: &mut Measured, data: &Path, outage: u64, rate: u64) -> anyhow::Result<Value> {
    put_hosts(server, "backlog", RUNS).await?;
    // It joins and leaves at once, so that the runs are handed to somebody whose place is known.
    drop(AgentProcess::join(server, "backlog", data, PLAYER).await?);
    let credential: Value = serde_json::from_slice(&std::fs::read(data.join("credential.json"))?)?;
    let token = credential["token"].as_str().context("no credential")?.to_owned();
    let agent = FakeAgent { name: "backlog".to_owned(), token };
    let job = job::submit(server, "backlog").await?;
    let tasks = agent.tasks(server, RUNS).await?;
    server.kill()?;
    let away = Instant::now();
    let (place, events) = (data.to_owned(), outage * rate);
    tokio::task::spawn_blocking(move || happen(&place, &tasks, outage, rate)).await??;
    tokio::time::sleep(Duration::from_secs(outage).saturating_sub(away.elapsed())).await;
    server.start_again().await?;
    let begun = Instant::now();
    let _agent = AgentProcess::again(server, data, PLAYER)?;
    job::ended(server, &job, RUNS).await?;
    let drained = begun.elapsed();
    // A run that was called lost would have been tried again.
    let hosts = super::ask(server, get(&format!("/jobs/{job}/hosts?limit={RUNS}"), &server.token)).await?;
    let once = |list: &Vec<Value>| list.len() == RUNS && list.iter().all(|host| host["attempts"] == 1);
    ensure!(hosts["hosts"].as_array().is_some_and(once), "some were tried again: {hosts}");
    let per_second = (events as f64 / drained.as_secs_f64()).round();
    Ok(json!({"outage_s": outage, "events": events, "drained_s": seconds(drained), "per_second": per_second}))
}

/// Writes events at a steady rate, and in the end that all runs ended well.
fn happen(data: &Path, tasks: &[Value], outage: u64, rate: u64) -> anyhow::Result<()> {
    const TICKS: u64 = 20;
    let begun = Instant::now();
    let clock: bowline_execute::Clock = Arc::new(|| Timestamp::from_millis(1));
    let runs = Runs::open(data, Settings::new(["/bin/false"], clock))?;
    let mut inside = tasks.iter().map(|task| begin(&runs, task)).collect::<anyhow::Result<Vec<Inside>>>()?;
    let mut written = 0;
    let text = "x".repeat(900);
    for tick in 1..=outage * TICKS {
        while written < tick * rate / TICKS {
            let event = json!({"kind": "progress", "number": written, "text": text});
            let at = usize::try_from(written)? % inside.len();
            inside[at].tell(Happening::Other(event.as_object().cloned().unwrap_or_default()));
            written += 1;
        }
        let due = Duration::from_millis(tick * 1_000 / TICKS);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    for run in inside {
        run.end(Ended {
            outcome: EndedAs::Succeeded,
            exit_code: Some(0),
            signal: None,
            message: None,
            children: None,
            duration_ms: None,
            stdout_bytes: 0,
            stderr_bytes: 0,
            last_seq: 0,
        })?;
    }
    Ok(())
}

fn begin(runs: &Runs, task: &Value) -> anyhow::Result<Inside> {
    let host = &task["params"]["host"];
    let manifest: Manifest = serde_json::from_value(json!({
        "version": Manifest::VERSION, "run": task["task_id"], "job": task["params"]["unit_id"], "host": host["name"],
        "fence": task["fence"], "host_fence": host["fence"], "lock": host["lock"], "argv": ["true"],
        "timeout_ms": task["timeout_ms"],
    }))?;
    Ok(runs.begin_inside(manifest, &Secrets::default())?)
}
