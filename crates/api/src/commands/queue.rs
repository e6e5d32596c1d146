//! `GET /hosts/{name}/queue`: who is at a host, and who waits for it.

use axum::Json;
use axum::extract::State;
use bowline_model::fleet::HostLock;
use bowline_model::{HostName, InventoryName, JobId, Timestamp};
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

#[derive(Debug, Serialize, JsonSchema)]
pub struct QueueView {
    pub host: HostName,
    pub inventory: InventoryName,
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
    let queue = found.ok_or_else(HostName::nothing)?.into_iter().map(|turn| TurnView {
        job_id: turn.job,
        job_number: turn.job_number,
        command: turn.command,
        lock: turn.lock,
        held: turn.held,
        status: job_word(turn.status),
        since: turn.since,
    });
    Ok(Json(QueueView { queue: queue.collect(), host, inventory }))
}
