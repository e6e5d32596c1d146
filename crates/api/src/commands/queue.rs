//! `GET /hosts/{name}/queue`: who is at a host, who waits for it, and for which missing runs it is kept.

use axum::Json;
use axum::extract::State;
use bowline_model::fleet::HostLock;
use bowline_model::{HostName, InventoryName, JobId, RunId, Timestamp, WorkerName};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::door::Known;
use crate::hosts::{InventoryQuery, inventory_or_default};
use crate::params::{Nameable, Named, Params};
use crate::problem::Problem;
use crate::views::job_word;

#[derive(Debug, Serialize, JsonSchema)]
pub struct TurnView {
    pub job_id: JobId,
    pub job_number: i64,
    pub command: String,
    pub lock: HostLock,
    /// It may run there now; otherwise it waits.
    pub held: bool,
    pub status: &'static str,
    pub since: Timestamp,
}

/// A run that went missing. While it could still go on, the host is kept for it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct KeptView {
    pub run_id: RunId,
    pub job_id: Option<JobId>,
    pub job_number: Option<i64>,
    pub command: Option<String>,
    /// Through whom it was executed.
    pub agent: WorkerName,
    pub lock: HostLock,
    pub since: Timestamp,
    /// When it must be over. Earlier if its agent tells how it ended, or somebody releases the host.
    pub until: Timestamp,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct QueueView {
    pub host: HostName,
    pub inventory: InventoryName,
    /// Runs that went missing here and could still go on.
    pub kept: Vec<KeptView>,
    /// In the order of their turns.
    pub queue: Vec<TurnView>,
}

pub async fn queue(
    State(app): State<App>,
    known: Known,
    Named(host): Named<HostName>,
    Params(query): Params<InventoryQuery>,
) -> Result<Json<QueueView>, Problem> {
    let inventory = inventory_or_default(query.inventory);
    let found = app.engine.ledger.host_queue(known.tenant()?, inventory.clone(), host.clone()).await?;
    let line = found.ok_or_else(HostName::nothing)?;
    let queue = line.turns.into_iter().map(|turn| TurnView {
        job_id: turn.job,
        job_number: turn.job_number,
        command: turn.command,
        lock: turn.lock,
        held: turn.held,
        status: job_word(turn.status),
        since: turn.since,
    });
    let kept = line.kept.into_iter().map(|kept| KeptView {
        run_id: kept.run,
        job_id: kept.job,
        job_number: kept.job_number,
        command: kept.command,
        agent: kept.agent,
        lock: kept.lock,
        since: kept.since,
        until: kept.until,
    });
    Ok(Json(QueueView { kept: kept.collect(), queue: queue.collect(), host, inventory }))
}
