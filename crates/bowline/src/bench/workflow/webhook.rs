//! A request, a condition, two variables, the answer: over HTTP, as a webhook would come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::{Map, Value, json};

use super::{per_second, put_workflow};
use crate::bench::client::{Line, post};
use crate::bench::figures::quantiles;
use crate::bench::server::Measured;

/// The graph that the peer is given, too: set a number, ask whether it is positive, set a flag, answer.
fn definition() -> Value {
    json!({
        "nodes": [
            {"id": "webhook", "type": "start"},
            {"id": "set1", "type": "variable_set", "config": {"name": "n", "value": "{{webhook.payload.n}}"}},
            {"id": "if", "type": "condition", "config": {"expression": "{{variables.n}} > 0"}},
            {"id": "set2", "type": "variable_set", "config": {"name": "ok", "value": true}},
            {"id": "respond", "type": "end", "config": {"output": {"n": "{{variables.n}}", "ok": "{{variables.ok}}"}}},
        ],
        "edges": [
            {"source": "webhook", "target": "set1"},
            {"source": "set1", "target": "if"},
            {"source": "if", "target": "set2", "on": "true"},
            {"source": "set2", "target": "respond"},
        ],
    })
}

pub async fn webhook(server: &Measured, connections: &[usize], seconds: u64) -> anyhow::Result<Value> {
    put_workflow(server, "bench-webhook", &definition()).await?;
    let body = r#"{"workflow":"bench-webhook","input":{"n":1}}"#;
    let request = Arc::new(post("/jobs", &server.token, body));
    let mut line = Line::open(&server.address).await?;
    let (status, answer) = line.send(&request).await?;
    ensure!(status == 202, "{status}: {}", String::from_utf8_lossy(answer));
    let answer: Value = serde_json::from_slice(answer)?;
    ensure!(answer["result"] == json!({"n": 1, "ok": true}), "the answer is not the run's: {answer}");
    let mut figures = Map::new();
    for count in connections {
        let end = Instant::now() + Duration::from_secs(seconds);
        let started = Instant::now();
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..*count {
            let (request, address) = (Arc::clone(&request), server.address.clone());
            callers.spawn(async move {
                let mut line = Line::open(&address).await?;
                let mut millis = Vec::new();
                while Instant::now() < end {
                    let sent = Instant::now();
                    let (status, _) = line.send(&request).await?;
                    ensure!(status == 202, "a run was answered {status}");
                    millis.push(sent.elapsed().as_secs_f64() * 1_000.0);
                }
                anyhow::Ok(millis)
            });
        }
        let mut millis = Vec::new();
        while let Some(done) = callers.join_next().await {
            millis.extend(done??);
        }
        let runs = millis.len() as u64;
        let mut own = quantiles(millis);
        own["runs_per_s"] = per_second(runs, started.elapsed().as_secs_f64());
        figures.insert(format!("c{count}"), own);
    }
    Ok(Value::Object(figures))
}
