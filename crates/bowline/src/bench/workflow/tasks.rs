//! Ten tasks in a row, executed by one remote worker over HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{per_second, put_workflow, row};
use crate::bench::client::{Line, get, post};
use crate::bench::server::Measured;

const TASKS: u64 = 10;
const WORKER: &str = "bench-flow-worker";
const CALLERS: usize = 16;
const WARM_UP: Duration = Duration::from_secs(2);

fn definition() -> Value {
    let config = json!({"type": "bench.flow", "payload": {"n": "{{webhook.payload.n}}"}});
    row((0..TASKS).map(|n| json!({"id": format!("task_{n}"), "type": "task", "config": config})).collect())
}

pub async fn tasks(server: &Measured, at_a_time: usize, seconds: u64) -> anyhow::Result<Value> {
    put_workflow(server, "bench-tasks", &definition()).await?;
    let mut line = Line::open(&server.address).await?;
    let body = json!({"kind": "worker", "name": WORKER}).to_string();
    let (status, answer) = line.send(&post("/tokens", &server.token, &body)).await?;
    ensure!(status == 201, "no token: {status}");
    let answer: Value = serde_json::from_slice(answer)?;
    let token: Arc<str> = answer["token"].as_str().context("no token")?.into();
    let register = json!({"worker_id": WORKER, "task_types": ["bench.flow"], "slots": 1_000}).to_string();
    let (status, _) = line.send(&post("/workers/register", &token, &register)).await?;
    ensure!(status == 200, "not registered: {status}");

    let done = Arc::new(AtomicU64::new(0));
    let (results, mut next) = mpsc::channel::<String>(10_000);
    let mut worker = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let (token, address, results) = (Arc::clone(&token), server.address.clone(), results.clone());
        worker.spawn(async move {
            let mut poll = Line::open(&address).await?;
            let request = get(&format!("/workers/{WORKER}/tasks?max=500&wait=500"), &token);
            loop {
                let (status, body) = poll.send(&request).await?;
                ensure!(status == 200, "a poll was answered {status}");
                let tasks: Vec<Value> = serde_json::from_slice(body)?;
                for task in tasks {
                    results
                        .send(
                            json!({"task_id": task["task_id"], "status": "success", "result": task["params"]})
                                .to_string(),
                        )
                        .await?;
                }
            }
        });
    }
    // One worker, with several results on their way: as a worker with so many places has it.
    let (lines, mut free) = mpsc::channel::<Line>(64);
    for _ in 0..64 {
        lines.send(Line::open(&server.address).await?).await?;
    }
    let (count, own) = (Arc::clone(&done), Arc::clone(&token));
    worker.spawn(async move {
        let mut under_way = tokio::task::JoinSet::new();
        while let Some(result) = next.recv().await {
            while under_way.try_join_next().is_some() {}
            let mut line = free.recv().await.context("no line")?;
            let (lines, token, count) = (lines.clone(), Arc::clone(&own), Arc::clone(&count));
            under_way.spawn(async move {
                if let Ok((200, _)) = line.send(&post("/tasks/result", &token, &result)).await {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                drop(lines.send(line).await);
            });
        }
        anyhow::Ok(())
    });

    // So many runs at a time: a new one is begun for each that has ended, by several callers, since one alone would be waited for.
    let begin: Arc<[u8]> = post("/jobs", &server.token, r#"{"workflow":"bench-tasks","input":{"n":1}}"#).into();
    let begun = Arc::new(AtomicU64::new(0));
    for _ in 0..CALLERS {
        let mut line = Line::open(&server.address).await?;
        let (begin, begun, done) = (Arc::clone(&begin), Arc::clone(&begun), Arc::clone(&done));
        worker.spawn(async move {
            loop {
                let wanted = at_a_time as u64 + done.load(Ordering::Relaxed) / TASKS;
                let next = |so_far| (so_far < wanted).then_some(so_far + 1);
                if begun.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok() {
                    begin_one(&mut line, &begin).await?;
                } else {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
        });
    }
    tokio::time::sleep(WARM_UP).await;
    let (since, at_start) = (Instant::now(), done.load(Ordering::Relaxed));
    let measured = tokio::time::timeout(Duration::from_secs(seconds), worker.join_next()).await;
    if let Ok(Some(failed)) = measured {
        failed??;
    }
    let steps = done.load(Ordering::Relaxed) - at_start;
    let took = since.elapsed().as_secs_f64();
    worker.abort_all();
    Ok(
        json!({"steps_per_s": per_second(steps, took), "runs_per_s": per_second(steps / TASKS, took), "at_a_time": at_a_time}),
    )
}

async fn begin_one(line: &mut Line, request: &[u8]) -> anyhow::Result<()> {
    let (status, body) = line.send(request).await?;
    ensure!(status == 202, "a run was answered {status}: {}", String::from_utf8_lossy(body));
    Ok(())
}
