//! One command on many hosts: how long until the last one has ended.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::{ask, put_hosts};
use crate::bench::client::{Line, get, post};
use crate::bench::server::Measured;

/// From the request to the moment when every host has ended.
pub(super) async fn one_job(server: &Measured, inventory: &str, hosts: usize) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let job = submit(server, inventory).await?;
    ended(server, &job, hosts).await?;
    Ok(begun.elapsed())
}

/// A command on all hosts of an inventory.
pub(super) async fn submit(server: &Measured, inventory: &str) -> anyhow::Result<String> {
    let body = json!({"command": {"argv": ["true"]}, "inventory": inventory, "selector": "all"}).to_string();
    let job = ask(server, post("/jobs", &server.token, &body)).await?;
    Ok(job["job_id"].as_str().context("no job")?.to_owned())
}

/// Waits until it has ended well on all hosts.
pub(super) async fn ended(server: &Measured, job: &str, hosts: usize) -> anyhow::Result<()> {
    let begun = Instant::now();
    let path = format!("/jobs/{job}");
    let mut line = Line::open(&server.address).await?;
    loop {
        let (_, body) = line.send(&get(&path, &server.token)).await?;
        let shown: Value = serde_json::from_slice(body)?;
        match shown["job"]["status"].as_str() {
            Some("success") => {
                ensure!(shown["command"]["hosts"]["by_status"]["success"] == hosts, "{shown}");
                return Ok(());
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
pub(super) async fn cost(server: &Measured, small: usize, large: usize) -> anyhow::Result<Value> {
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
