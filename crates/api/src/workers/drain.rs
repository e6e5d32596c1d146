//! `POST /workers/{id}/drain`: ask a worker to take no more tasks.

use axum::Json;
use axum::extract::State;
use bowline_model::WorkerName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::body::MaybeBody;
use crate::door::Known;
use crate::params::Part;
use crate::problem::Problem;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DrainRequest {
    /// `false` lets it go on.
    pub draining: bool,
}

impl Default for DrainRequest {
    fn default() -> Self {
        Self { draining: true }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct DrainAnswer {
    pub worker_id: WorkerName,
    pub draining: bool,
}

pub async fn drain(
    State(app): State<App>,
    known: Known,
    Part(id): Part,
    MaybeBody(body): MaybeBody<DrainRequest>,
) -> Result<Json<DrainAnswer>, Problem> {
    let nobody = || Problem::not_found("WORKER_NOT_FOUND", "worker");
    let name = WorkerName::new(&id).map_err(|_| nobody())?;
    if !app.engine.ledger.drain_worker(known.tenant()?, name.clone(), body.draining, known.author()).await? {
        return Err(nobody());
    }
    app.engine.dispatcher.set_draining(known.tenant()?, name.clone(), body.draining);
    Ok(Json(DrainAnswer { worker_id: name, draining: body.draining }))
}
