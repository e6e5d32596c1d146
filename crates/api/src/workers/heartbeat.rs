//! `POST /workers/{id}/heartbeat`: a worker renews its leases and hears what to stop.

use axum::Json;
use axum::extract::State;
use bowline_protocol::{HeartbeatAnswer, HeartbeatRequest};
use bowline_store::{BeatAnswer, Heartbeat};

use crate::app::App;
use crate::body::MaybeBody;
use crate::door::Known;
use crate::params::Part;
use crate::problem::Problem;

const RUNS_MAX: usize = 100_000;

pub async fn heartbeat(
    State(app): State<App>,
    known: Known,
    Part(id): Part,
    MaybeBody(body): MaybeBody<HeartbeatRequest>,
) -> Result<Json<HeartbeatAnswer>, Problem> {
    let tenant = known.tenant()?;
    let worker = known.worker(&id)?;
    if body.runs.len() > RUNS_MAX {
        return Err(Problem::validation(format!("a heartbeat names at most {RUNS_MAX} runs")));
    }
    let found = app.engine.ledger.find_worker(tenant, worker.clone()).await?;
    let record = found.ok_or_else(|| Problem::not_found("WORKER_NOT_FOUND", "worker; register first"))?;
    // A heartbeat without names comes from a worker with nothing to do, or from one that knows no names at all.
    let bare = body.runs.is_empty() && !record.names_runs;
    let beat = Heartbeat { worker, tenant: Some(tenant), runs: body.runs, bare };
    let mut answer =
        HeartbeatAnswer { renewed: Vec::new(), cancel: Vec::new(), stale: Vec::new(), drain: record.draining };
    for (run, what) in app.engine.ledger.heartbeat(beat).await? {
        match what {
            BeatAnswer::Renewed => answer.renewed.push(run),
            BeatAnswer::Cancel => answer.cancel.push(run),
            BeatAnswer::Stale => answer.stale.push(run),
        }
    }
    Ok(Json(answer))
}
