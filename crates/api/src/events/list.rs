//! `GET /events`: the ledger's events, oldest first, page by page.

use axum::Json;
use axum::extract::State;
use bowline_model::{JobId, TenantId, Timestamp};
use bowline_store::Position;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::filter::Wanted;
use crate::app::App;
use crate::door::Known;
use crate::params::{Params, page_size};
use crate::problem::Problem;
use crate::views::EventView;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ListQuery {
    /// The caller's own; another one is not found.
    pub tenant_id: Option<TenantId>,
    /// One or several, separated by commas.
    pub r#type: Option<String>,
    /// This loud or louder.
    pub severity: Option<String>,
    pub job_id: Option<JobId>,
    pub trace_id: Option<String>,
    pub since: Option<Timestamp>,
    pub limit: Option<u32>,
    pub cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct EventList {
    pub events: Vec<EventView>,
    /// Where to go on. There always is a place to go on from, also when nothing is there yet.
    pub next_cursor: Option<String>,
    /// Whether there is more right now.
    pub more: bool,
}

pub async fn list(
    State(app): State<App>,
    known: Known,
    Params(query): Params<ListQuery>,
) -> Result<Json<EventList>, Problem> {
    let tenant = known.tenant()?;
    let limit = page_size(query.limit, &app)?;
    let after: Position = match query.cursor {
        None => Position::default(),
        Some(text) => app.cursors.read("events", tenant, &text)?.parse().map_err(Problem::validation)?,
    };
    let wanted = Wanted {
        tenant_id: query.tenant_id,
        r#type: query.r#type,
        severity: query.severity,
        job_id: query.job_id,
        trace_id: query.trace_id,
        since: query.since,
    };
    let page = app.engine.ledger.events_after(after, wanted.filter(tenant)?, limit).await?;
    Ok(Json(EventList {
        events: page.events.into_iter().map(|(_, event)| event.into()).collect(),
        next_cursor: Some(app.cursors.write("events", tenant, &page.end.to_string())),
        more: page.more,
    }))
}
