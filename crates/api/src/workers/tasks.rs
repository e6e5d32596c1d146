//! `GET /workers/{id}/tasks`: a worker waits for tasks.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bowline_model::fleet::HostLock;
use bowline_model::host::Connection;
use bowline_model::trace::traceparent;
use bowline_model::worker::Abilities;
use bowline_model::{Admission, HostName, JobId, Labels};
use bowline_protocol::{DRAIN_HEADER, Task, TasksQuery};
use bowline_store::{Claimant, ClaimedRun, ClaimedUnit};
use hyper::header::HeaderValue;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::handout::HandOut;
use super::secrets::{Sealed, seal_all};
use crate::agents::narrowed;
use crate::app::App;
use crate::door::Known;
use crate::params::{Params, Part};
use crate::patience::Patience;
use crate::problem::Problem;
use crate::serve::Socket;

const WAIT_MAX_MS: u64 = 60_000;
const TASKS_MAX: u32 = 1_000;

pub async fn tasks(
    State(app): State<App>,
    known: Known,
    patience: Patience,
    Part(id): Part,
    Params(query): Params<TasksQuery>,
    socket: Option<Extension<Socket>>,
) -> Result<Response, Problem> {
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
    let _place = if wait > 0 { Some(app.polls.take(&known)?) } else { None };
    let found = app.engine.ledger.find_worker(tenant, worker.clone()).await?;
    let record = found.ok_or_else(|| Problem::not_found("WORKER_NOT_FOUND", "worker; register first"))?;
    if record.draining || app.engine.dispatcher.is_draining(tenant, &worker) {
        // One that does not heed it must not ask without a pause.
        tokio::time::sleep(Duration::from_millis(wait.min(1_000))).await;
        return Ok(drained());
    }
    let registered = Abilities { task_types: record.task_types.into_iter().collect(), labels: record.labels };
    // What an agent has is kept with the agent; no other credential than its own polls for it.
    let is_agent = registered.labels.get(Connection::AGENT_LABEL).is_some();
    let abilities = match app.gate.token(&known.0).await? {
        _ if is_agent => registered,
        Some(token) => narrowed(registered, &token.labels, &token.admission),
        None => narrowed(registered, &Labels::default(), &Admission::default()),
    };
    let claimant = Claimant {
        worker: worker.clone(),
        tenant: Some(tenant),
        passes_over: Arc::default(),
        abilities: Arc::new(abilities),
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
        () = app.gate.ended(&known.0) => return Err(ended()),
    };
    let handout = HandOut::of(&app.engine, &runs);
    if runs.is_empty() && app.engine.dispatcher.is_draining(tenant, &worker) {
        return Ok(drained());
    }
    if !runs.is_empty() && !app.gate.still_good(&known.0).await {
        // Its token ended while it waited. What it would have got goes back.
        return Err(ended());
    }
    let credential = known.0.actor.token().map(ToString::to_string).unwrap_or_default();
    let runs = seal_all(&app, tenant, &worker, &credential, runs).await?;
    let tasks: Vec<Task> = runs.into_iter().map(show).collect();
    let connection = socket.map(|Extension(socket)| socket.unwritten).unwrap_or_default();
    Ok(Json(tasks).into_response().map(|body| handout.carried_by(body, connection)))
}

/// There is nothing for a worker that drains, and it is told why.
fn drained() -> Response {
    let mut response = Json(Vec::<Task>::new()).into_response();
    response.headers_mut().insert(DRAIN_HEADER, HeaderValue::from_static("true"));
    response
}

fn ended() -> Problem {
    Problem::unauthorized("the token was revoked or has expired")
}

/// What an agent is told, as `bowline_protocol::HostTask` has it. The command is passed on as it was stored.
fn host_params(run: &ClaimedRun, unit: &ClaimedUnit) -> serde_json::Result<Box<RawValue>> {
    #[derive(Serialize)]
    struct Params<'a> {
        unit_id: JobId,
        command: &'a RawValue,
        host: Host<'a>,
    }
    #[derive(Serialize)]
    struct Host<'a> {
        id: i64,
        name: &'a HostName,
        connection: &'a Connection,
        lock: HostLock,
        fence: i64,
        #[serde(skip_serializing_if = "Option::is_none")]
        scope: Option<&'a RawValue>,
    }
    let scope = unit.scope.as_deref().map(serde_json::from_str).transpose()?;
    let host = Host {
        id: unit.host_id,
        name: &unit.host,
        connection: &unit.connection,
        lock: unit.lock,
        fence: unit.host_fence,
        scope,
    };
    to_raw_value(&Params { unit_id: run.job, command: serde_json::from_str(&run.payload)?, host })
}

fn show((run, sealed): Sealed) -> Task {
    let (params, job_id) = match &run.unit {
        None => (RawValue::from_string(run.payload.to_string()), run.job),
        Some(unit) => (host_params(&run, unit), unit.command),
    };
    Task {
        task_id: run.run,
        task_type: run.task_type,
        params: params.unwrap_or_else(|_| RawValue::NULL.to_owned()),
        job_id,
        worker_id: run.worker,
        lane: run.lane,
        attempt: run.attempt,
        fence: run.fence,
        idempotency_key: run.job.to_string(),
        timeout_ms: run.timeout_ms,
        sealed,
        created_at: run.created_at,
        traceparent: Some(traceparent(run.trace_id.as_deref(), job_id, run.run)),
        trace_id: run.trace_id.map(|id| id.to_string()),
        correlation_id: run.correlation_id.map(|id| id.to_string()),
    }
}
