//! `GET /workers/{id}/tasks`: a worker waits for tasks.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::{Extension, Json};
use bowline_model::worker::Abilities;
use bowline_protocol::{Task, TasksQuery};
use bowline_store::{Claimant, ClaimedRun};
use serde_json::value::RawValue;

use crate::app::App;
use crate::door::Known;
use crate::params::{Params, Part};
use crate::patience::Patience;
use crate::problem::Problem;

const WAIT_MAX_MS: u64 = 60_000;
const TASKS_MAX: u32 = 1_000;

pub async fn tasks(
    State(app): State<App>,
    known: Known,
    Extension(patience): Extension<Patience>,
    Part(id): Part,
    Params(query): Params<TasksQuery>,
) -> Result<Json<Vec<Task>>, Problem> {
    let tenant = known.tenant()?;
    let worker = known.worker(&id)?;
    let wants = query.max.unwrap_or(1);
    if wants == 0 || wants > TASKS_MAX {
        return Err(Problem::validation(format!("max must be between 1 and {TASKS_MAX}")));
    }
    let wait = query.wait.unwrap_or(0);
    if wait > WAIT_MAX_MS {
        return Err(Problem::validation(format!("wait must be between 0 and {WAIT_MAX_MS}")));
    }
    let found = app.engine.ledger.find_worker(tenant, worker.clone()).await?;
    let record = found.ok_or_else(|| Problem::not_found("WORKER_NOT_FOUND", "worker; register first"))?;
    if record.draining {
        // Told with the next heartbeat; until then there is simply nothing for it.
        tokio::time::sleep(Duration::from_millis(wait.min(1_000))).await;
        return Ok(Json(Vec::new()));
    }
    let claimant = Claimant {
        worker,
        tenant: Some(tenant),
        abilities: Arc::new(Abilities { task_types: record.task_types.into_iter().collect(), labels: record.labels }),
        wants,
        busy: record.slots.saturating_sub(wants),
        slots: record.slots,
        accepts_at_once: false,
    };
    let stop = app.stop.clone();
    let wait = Duration::from_millis(wait.max(1));
    let waiting = app.engine.dispatcher.take(claimant, wait);
    let runs = tokio::select! {
        runs = patience.besides(wait, waiting) => runs,
        () = stop.cancelled() => Vec::new(),
    };
    if !runs.is_empty() && !app.gate.still_good(&known.0).await {
        // Its token ended while it waited. What it would have got goes back.
        app.engine.ledger.give_back(runs.iter().map(|run| run.run).collect()).await?;
        return Err(Problem::unauthorized("the token was revoked or has expired"));
    }
    Ok(Json(runs.into_iter().map(show).collect()))
}

fn show(run: ClaimedRun) -> Task {
    let params = RawValue::from_string(run.payload.to_string());
    Task {
        task_id: run.run,
        task_type: run.task_type,
        params: params.unwrap_or_else(|_| RawValue::NULL.to_owned()),
        job_id: run.job,
        worker_id: run.worker,
        lane: run.lane,
        attempt: run.attempt,
        fence: run.fence,
        idempotency_key: run.job.to_string(),
        timeout_ms: run.timeout_ms,
        created_at: run.created_at,
        trace_id: run.trace_id.map(|id| id.to_string()),
        correlation_id: run.correlation_id.map(|id| id.to_string()),
    }
}
