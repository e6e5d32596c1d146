//! `POST /schedules/preview`: when a pattern would fire, before anybody relies on it.

use axum::Json;
use axum::extract::State;
use bowline_model::Timestamp;
use bowline_model::schedule::{Cron, Zone};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::view::{InstantView, instants_of};
use crate::app::App;
use crate::body::Body;
use crate::problem::Problem;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewRequest {
    pub cron: Cron,
    #[serde(default)]
    pub timezone: Zone,
    /// How many instants: 10 unless given.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 1000))]
    pub count: u32,
    /// The instants after this moment; after now unless given.
    #[serde(default)]
    pub after: Option<Timestamp>,
}

const fn ten() -> u32 {
    10
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct PreviewAnswer {
    pub cron: Cron,
    pub timezone: Zone,
    pub instants: Vec<InstantView>,
}

pub const COUNT_MAX: u32 = 1_000;

pub async fn preview(State(app): State<App>, Body(body): Body<PreviewRequest>) -> Result<Json<PreviewAnswer>, Problem> {
    let PreviewRequest { cron, timezone, count, after } = body;
    if !(1..=COUNT_MAX).contains(&count) {
        let message = format!("count must be between 1 and {COUNT_MAX}");
        return Err(Problem::validation(message).with(json!({"field": "count"})));
    }
    let after = after.unwrap_or_else(|| app.engine.clock.now());
    let next = |at: Timestamp| cron.next_in(&timezone, at);
    let instants = instants_of(&timezone, after, count as usize, next);
    Ok(Json(PreviewAnswer { cron, timezone, instants }))
}
