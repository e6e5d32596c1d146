//! One run of 10,000 steps in a loop: do the last ones cost what the first ones did?

use std::time::Duration;

use anyhow::{Context, ensure};
use bowline_engine::flow::WorkflowChoice;
use bowline_model::JobStatus;
use bowline_store::Submitted;
use serde_json::{Value, json};

use super::embedded::Embedded;

const STEPS: u32 = 10_000;
const PART: u32 = 1_000;
/// So that one pause of the disk does not decide.
const RUNS: usize = 9;

fn definition() -> Value {
    json!({
        "max_steps": 2 * STEPS,
        "variables": {"n": 0},
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "add", "type": "math", "config": {"operation": "add", "operands": ["{{variables.n}}", 1], "store_as": "n"}},
            {"id": "note", "type": "transform", "config": {"value": {"n": "{{variables.n}}", "text": "round {{variables.n}}"}}},
            {"id": "work", "type": "task", "config": {"type": "noop"}},
            {"id": "more", "type": "condition", "config": {"expression": format!("{{{{variables.n}}}} < {}", STEPS / 4)}},
            {"id": "end", "type": "end", "config": {"output": "{{variables.n}}"}},
        ],
        "edges": [
            {"source": "start", "target": "add"},
            {"source": "add", "target": "note"},
            {"source": "note", "target": "work"},
            {"source": "work", "target": "more"},
            {"source": "more", "target": "add", "on": "true"},
            {"source": "more", "target": "end", "on": "false"},
        ],
    })
}

/// Every fourth step is a task of the built-in worker, so that each round is stored before the next one begins.
pub async fn long(house: &Embedded) -> anyhow::Result<Value> {
    let workflow =
        WorkflowChoice::Inline { name: "long".to_owned(), spec: Box::new(serde_json::from_value(definition())?) };
    let (mut first, mut last, mut total) = (0.0, 0.0, 0.0);
    let mut ratios = Vec::new();
    for _ in 0..RUNS {
        let answer = house.begin(&workflow, Value::Null).await?;
        let Submitted::Accepted { id, .. } = answer.submitted else { anyhow::bail!("a run was not accepted") };
        let record = loop {
            let (record, _) = house.engine.ledger.find_job(house.tenant, id).await?.context("a job")?;
            if record.state.status.is_terminal() {
                break record;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        ensure!(record.state.status == JobStatus::Succeeded, "{:?}", record.error);
        let steps = house.engine.flows.steps(house.tenant, id, 1, 2 * STEPS).await?.steps;
        let at = |n: u32| steps[n as usize - 1].step.ended_at.as_micros() as f64 / 1_000.0;
        let begin = at(PART) - at(1);
        let end = at(STEPS) - at(STEPS - PART);
        (first, last, total) = (first + begin, last + end, total + at(STEPS) - at(1));
        ratios.push(end / begin);
    }
    ratios.sort_by(f64::total_cmp);
    let round = |value: f64| (value * 100.0).round() / 100.0;
    let runs = RUNS as f64;
    Ok(json!({
        "steps": STEPS, "first_1000_ms": round(first / runs), "last_1000_ms": round(last / runs),
        "ratio": round(last / first), "median_ratio": round(ratios[RUNS / 2]),
        "steps_per_s": (f64::from(STEPS) * runs / total * 1_000.0).round(),
    }))
}
