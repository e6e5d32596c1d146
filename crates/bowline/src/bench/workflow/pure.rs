//! start, eight nodes that only calculate, end: many at a time, in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use bowline_engine::flow::WorkflowChoice;
use bowline_model::audit::Author;
use bowline_model::resource::{ResourceKind, Spec};
use bowline_model::{JobStatus, ResourceName};
use bowline_store::Submitted;
use serde_json::{Value, json};

use super::embedded::Embedded;
use super::{per_second, row};

/// Steps of one run.
const STEPS: u64 = 10;

fn definition() -> Value {
    let node = |id: &str, node_type: &str, config: Value| json!({"id": id, "type": node_type, "config": config});
    row(vec![
        node("n", "variable_set", json!({"name": "n", "value": "{{webhook.payload.n}}"})),
        node(
            "twice",
            "math",
            json!({"operation": "multiply", "operands": ["{{variables.n}}", 2], "store_as": "twice"}),
        ),
        node("name", "transform", json!({"value": {"name": "order-{{variables.twice}}", "n": "{{variables.n}}"}})),
        node("keep", "variable_set", json!({"name": "order", "value": "{{steps.name.output}}"})),
        node("more", "math", json!({"operation": "add", "operands": ["{{variables.twice}}", 1], "store_as": "more"})),
        node("shape", "transform", json!({"value": ["{{variables.more}}", "{{variables.order.name}}"]})),
        node("last", "variable_set", json!({"name": "last", "value": "{{steps.shape.output}}"})),
        node("sum", "math", json!({"operation": "add", "operands": ["{{variables.more}}", "{{variables.n}}"]})),
    ])
}

pub async fn pure(house: &Embedded, at_a_time: usize, seconds: u64) -> anyhow::Result<Value> {
    let name = ResourceName::new("bench-pure")?;
    let spec = Spec::from_value(ResourceKind::Workflow, definition())?;
    let by = Author::from("bench");
    house.engine.resources.put(house.tenant, name.clone(), &spec, None, by, true, None).await?;
    let workflow = WorkflowChoice::Named { name, version: None };
    // Connections and caches first.
    submit(house, &workflow, at_a_time, Duration::from_secs(1)).await?;
    let started = Instant::now();
    let runs = submit(house, &workflow, at_a_time, Duration::from_secs(seconds)).await?;
    let took = started.elapsed().as_secs_f64();
    Ok(json!({
        "runs_per_s": per_second(runs, took),
        "steps_per_s": per_second(runs * STEPS, took),
        "at_a_time": at_a_time,
    }))
}

/// So many callers, each beginning a run when its last one is over.
async fn submit(house: &Embedded, workflow: &WorkflowChoice, at_a_time: usize, time: Duration) -> anyhow::Result<u64> {
    let runs = Arc::new(AtomicU64::new(0));
    let end = Instant::now() + time;
    let callers = (0..at_a_time).map(|n| {
        let runs = Arc::clone(&runs);
        async move {
            while Instant::now() < end {
                let answer = house.begin(workflow, json!({"n": n})).await?;
                let Submitted::Accepted { status, .. } = answer.submitted else {
                    anyhow::bail!("a run was not accepted");
                };
                ensure!(status == JobStatus::Succeeded, "a run is {status}: {:?}", answer.error);
                runs.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        }
    });
    futures_util::future::try_join_all(callers).await?;
    Ok(runs.load(Ordering::Relaxed))
}
