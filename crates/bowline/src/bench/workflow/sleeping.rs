//! Many runs asleep: what they cost while nothing happens, and how late they wake up.

use std::time::Duration;

use anyhow::{Context, ensure};
use bowline_model::Timestamp;
use serde_json::{Value, json};

use super::{put_workflow, row};
use crate::bench::client::{Line, get, post};
use crate::bench::figures::quantiles;
use crate::bench::server::Measured;

fn definition() -> Value {
    row(vec![json!({"id": "nap", "type": "sleep", "config": {"until": "{{webhook.payload.until}}"}})])
}

pub async fn sleeping(server: &Measured, sleepers: usize, rate: u64, seconds: u64) -> anyhow::Result<Value> {
    put_workflow(server, "bench-sleep", &definition()).await?;
    let before = server.memory_mib()?;
    // Those that sleep for years.
    let years = r#"{"workflow":"bench-sleep","input":{"until":"2035-01-01T00:00:00Z"}}"#;
    begin_all(server, std::iter::repeat_n(years.to_owned(), sleepers)).await?;
    let asleep = server.memory_mib()?;
    // Those that wake up while we look, one after the other at a steady rate.
    let count = rate * seconds;
    let lead = Duration::from_secs(2 + count / 2_000);
    let begin = now() + i64::try_from(lead.as_micros())?;
    let due = |n: u64| begin + i64::try_from(n * 1_000_000 / rate).unwrap_or(0);
    let bodies = (0..count).map(|n| {
        let until = Timestamp::from_micros(due(n));
        json!({"workflow": "bench-sleep", "input": {"until": until}}).to_string()
    });
    let jobs = begin_all(server, bodies).await?;
    let moments = (0..count).map(due).collect();
    let bare = tokio::task::spawn_blocking(|| bare_timers(moments)).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut line = Line::open(&server.address).await?;
    let mut millis = Vec::with_capacity(jobs.len());
    for (n, job) in jobs {
        let (_, body) = line.send(&get(&format!("/jobs/{job}"), &server.token)).await?;
        let answer: Value = serde_json::from_slice(body)?;
        let ended: Timestamp = serde_json::from_value(answer["job"]["finished_at"].clone())
            .with_context(|| format!("a sleeper has not woken up: {answer}"))?;
        millis.push((ended.as_micros() - due(n)) as f64 / 1_000.0);
    }
    let mut figures = quantiles(millis);
    figures["rate_per_s"] = rate.into();
    figures["bare_timer"] = quantiles(bare);
    let round = |mib: f64| (mib * 10.0).round() / 10.0;
    Ok(json!({"sleepers": sleepers, "idle_mib": round(before), "asleep_mib": round(asleep), "late": figures}))
}

/// How late a thread is that only sleeps until each of these moments: what nobody on this machine could do better, at the
/// time it was measured. A machine that is lent out by the millisecond has pauses of its own.
fn bare_timers(moments: Vec<i64>) -> Vec<f64> {
    let late = |moment: i64| {
        std::thread::sleep(Duration::from_micros(u64::try_from(moment - now()).unwrap_or(0)));
        (now() - moment) as f64 / 1_000.0
    };
    moments.into_iter().map(late).collect()
}

/// Begins a run for each body, over several connections, and says which job is whose.
async fn begin_all(server: &Measured, bodies: impl Iterator<Item = String>) -> anyhow::Result<Vec<(u64, String)>> {
    const LINES: usize = 32;
    let mut shares: Vec<Vec<(u64, Vec<u8>)>> = vec![Vec::new(); LINES];
    for (n, body) in (0..).zip(bodies) {
        shares[n as usize % LINES].push((n, post("/jobs", &server.token, &body)));
    }
    let mut callers = tokio::task::JoinSet::new();
    for share in shares {
        let address = server.address.clone();
        callers.spawn(async move {
            let mut line = Line::open(&address).await?;
            let mut jobs = Vec::with_capacity(share.len());
            for (n, request) in share {
                let (status, body) = line.send(&request).await?;
                ensure!(status == 202, "a run was answered {status}: {}", String::from_utf8_lossy(body));
                let answer: Value = serde_json::from_slice(body)?;
                jobs.push((n, answer["job_id"].as_str().unwrap_or_default().to_owned()));
            }
            anyhow::Ok(jobs)
        });
    }
    let mut all = Vec::new();
    while let Some(done) = callers.join_next().await {
        all.extend(done??);
    }
    Ok(all)
}

/// By the machine's clock, in microseconds.
#[expect(clippy::disallowed_methods, reason = "both sides of a measurement go by the machine's clock")]
fn now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(0)
}
