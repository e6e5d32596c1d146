//! Agents that have nothing to do: what they cost the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::fake_agent::FakeAgent;
use crate::bench::client::{Line, get, post};
use crate::bench::server::Measured;

/// Many agents that wait for tasks and beat, as real ones do when there is nothing to do.
pub(super) async fn agents(server: &Measured, count: usize, seconds: u64) -> anyhow::Result<Value> {
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
