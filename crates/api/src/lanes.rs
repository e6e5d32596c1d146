//! `GET /lanes`: what waits where.

use axum::Json;
use axum::extract::State;
use bowline_model::Lane;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::door::Known;
use crate::problem::Problem;

#[derive(Debug, Serialize, JsonSchema)]
pub struct LaneView {
    pub lane: Lane,
    /// Its share while others wait too.
    pub weight: u32,
    pub queued: u64,
    pub scheduled: u64,
    pub running: u64,
    /// Open dead letters.
    pub dead: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct LaneList {
    pub lanes: Vec<LaneView>,
}

pub async fn list(State(app): State<App>, known: Known) -> Result<Json<LaneList>, Problem> {
    let depths = app.engine.ledger.lane_depths(Some(known.tenant()?)).await?;
    let lanes = depths
        .into_iter()
        .map(|d| LaneView {
            lane: d.lane,
            weight: app.engine.settings.weights.of(d.lane),
            queued: d.queued,
            scheduled: d.scheduled,
            running: d.running,
            dead: d.dead,
        })
        .collect();
    Ok(Json(LaneList { lanes }))
}
