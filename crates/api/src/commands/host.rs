//! `GET /jobs/{id}/hosts/{host}`: one host of a command, with every attempt.

use axum::Json;
use axum::extract::{Path, State};
use bowline_model::{HostName, JobId};
use schemars::JsonSchema;
use serde::Serialize;

use super::view::UnitView;
use crate::app::App;
use crate::door::Known;
use crate::params::Nameable;
use crate::problem::Problem;
use crate::views::RunView;

#[derive(Debug, Serialize, JsonSchema)]
pub struct UnitAnswer {
    pub host: UnitView,
    /// Oldest first.
    pub runs: Vec<RunView>,
}

pub async fn host(
    State(app): State<App>,
    known: Known,
    Path((job, host)): Path<(String, String)>,
) -> Result<Json<UnitAnswer>, Problem> {
    let job: JobId = job.parse().map_err(|_| JobId::nothing())?;
    let host = HostName::new(&host).map_err(|_| HostName::nothing())?;
    let found = app.engine.ledger.find_unit(known.tenant()?, job, host).await?;
    let (unit, runs) = found.ok_or_else(HostName::nothing)?;
    let runs = runs.into_iter().map(Into::into).collect();
    Ok(Json(UnitAnswer { host: app.actors.unit(unit).await, runs }))
}
