//! `GET /schedules`: the schedules by name, with their next instant and what came of the last one.

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::view::ScheduleView;
use crate::app::App;
use crate::door::Known;
use crate::params::{Params, page_size};
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "SchedulesQuery")]
pub struct ListQuery {
    pub limit: Option<u32>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SchedulePage {
    pub schedules: Vec<ScheduleView>,
    pub next_cursor: Option<String>,
}

const LIST: &str = "schedules";

pub async fn list(
    State(app): State<App>,
    known: Known,
    Params(query): Params<ListQuery>,
) -> Result<Json<SchedulePage>, Problem> {
    let tenant = known.tenant()?;
    let limit = page_size(query.limit, &app)?;
    let after = app.cursors.read_name(LIST, tenant, query.cursor.as_deref())?;
    let page = app.engine.ledger.list_schedules(tenant, after, limit).await?;
    let now = app.engine.clock.now();
    let mut schedules = Vec::with_capacity(page.items.len());
    for record in &page.items {
        schedules.push(ScheduleView::of(&app, record, now).await?);
    }
    Ok(Json(SchedulePage {
        schedules,
        next_cursor: page.next.map(|name| app.cursors.write(LIST, tenant, name.as_str())),
    }))
}
