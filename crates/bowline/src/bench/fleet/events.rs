//! Events of many runs: how fast they are taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::fake_agent::FakeAgent;
use super::{job, put_hosts};
use crate::bench::client::{Line, post};
use crate::bench::server::Measured;

/// Events of 1 KiB of many runs, told as fast as they are taken.
pub(super) async fn events(server: &Measured, seconds: u64) -> anyhow::Result<Value> {
    const RUNS: usize = 100;
    const BATCH: usize = 20;
    put_hosts(server, "events", RUNS).await?;
    let agent = FakeAgent::join(server, "events", json!({"bowline/reach": "simulate"})).await?;
    job::submit(server, "events").await?;
    let runs = agent.runs(server, RUNS).await?;
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
