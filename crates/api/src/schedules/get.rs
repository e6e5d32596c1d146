//! `GET /schedules/{name}`: a schedule, what it says and what came of it.

use axum::Json;
use axum::extract::State;
use bowline_model::{ResourceName, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::preview::COUNT_MAX;
use super::problem::no_schedule;
use super::view::{InstantView, ScheduleView, upcoming};
use crate::app::App;
use crate::door::Known;
use crate::params::{Params, Part};
use crate::problem::Problem;
use crate::views::raw;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "ScheduleQuery")]
pub struct GetQuery {
    /// How many of the next instants to show; none unless given.
    #[schemars(range(max = 1000))]
    pub next: u32,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ScheduleAnswer {
    #[serde(flatten)]
    pub schedule: ScheduleView,
    /// Every instant up to here has been considered.
    pub seen: Option<Timestamp>,
    /// As many of the next instants as were asked for.
    pub instants: Vec<InstantView>,
    /// What it says, with every default in its place.
    pub spec: Option<Box<RawValue>>,
}

pub async fn get(
    State(app): State<App>,
    known: Known,
    Part(name): Part,
    Params(query): Params<GetQuery>,
) -> Result<Json<ScheduleAnswer>, Problem> {
    if query.next > COUNT_MAX {
        return Err(Problem::validation(format!("next must be at most {COUNT_MAX}")));
    }
    let name = ResourceName::new(&name).map_err(|_| no_schedule())?;
    let record = app.engine.ledger.find_schedule(known.tenant()?, name).await?.ok_or_else(no_schedule)?;
    let now = app.engine.clock.now();
    Ok(Json(ScheduleAnswer {
        schedule: ScheduleView::of(&app, &record, now).await?,
        instants: upcoming(&record, now, query.next as usize),
        seen: record.state.as_ref().map(|state| state.seen),
        spec: raw(Some(record.spec.to_string())),
    }))
}
