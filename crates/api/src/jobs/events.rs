//! `GET /jobs/{id}/events`: what happened to a job, oldest first.

use axum::Json;
use axum::extract::State;
use bowline_model::JobId;
use bowline_store::Position;
use schemars::JsonSchema;
use serde::Deserialize;

use super::get::no_job;
use crate::app::App;
use crate::door::Known;
use crate::events::EventList;
use crate::params::{Named, Params, page_size};
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EventsQuery {
    pub limit: Option<u32>,
    pub cursor: Option<String>,
}

pub async fn events(
    State(app): State<App>,
    known: Known,
    Named(job): Named<JobId>,
    Params(query): Params<EventsQuery>,
) -> Result<Json<EventList>, Problem> {
    let tenant = known.tenant()?;
    let limit = page_size(query.limit, &app)?;
    let list = format!("job {job} events");
    let after: Option<Position> = match query.cursor {
        None => None,
        Some(text) => Some(app.cursors.read(&list, tenant, &text)?.parse().map_err(Problem::validation)?),
    };
    let page = app.engine.ledger.job_events(tenant, job, after, limit).await?.ok_or_else(no_job)?;
    let more = page.next.is_some();
    Ok(Json(EventList {
        events: app.actors.events(page.items).await,
        next_cursor: page.next.map(|place| app.cursors.write(&list, tenant, &place.to_string())),
        more,
    }))
}
