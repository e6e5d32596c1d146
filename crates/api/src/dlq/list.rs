//! `GET /dlq/{lane}`: dead letters, newest first.

use axum::Json;
use axum::extract::State;
use bowline_model::dead_letter::DeadLetterStatus;
use bowline_model::{ErrorClass, JobId, Lane, TaskType, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actors::ActorView;
use crate::app::App;
use crate::door::Known;
use crate::params::{Named, Params, page_size};
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ListQuery {
    /// Open ones unless given.
    pub status: Option<DeadLetterStatus>,
    pub limit: Option<u32>,
    pub cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct DeadLetterView {
    pub job_id: JobId,
    pub number: i64,
    pub r#type: TaskType,
    pub lane: Lane,
    pub at: Timestamp,
    pub status: DeadLetterStatus,
    pub attempts: u32,
    pub class: Option<ErrorClass>,
    pub error: Option<String>,
    pub closed_at: Option<Timestamp>,
    pub closed_by: Option<String>,
    /// The same, with the name.
    pub closer: Option<ActorView>,
    pub reason: Option<String>,
    pub replayed_as: Option<JobId>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct DeadLetterPage {
    pub entries: Vec<DeadLetterView>,
    pub next_cursor: Option<String>,
}

pub async fn list(
    State(app): State<App>,
    known: Known,
    Named(lane): Named<Lane>,
    Params(query): Params<ListQuery>,
) -> Result<Json<DeadLetterPage>, Problem> {
    let tenant = known.tenant()?;
    let limit = page_size(query.limit, &app)?;
    let name = format!("dlq {lane}");
    let before = match query.cursor {
        None => None,
        Some(text) => Some(app.cursors.read(&name, tenant, &text)?.parse().map_err(Problem::validation)?),
    };
    let status = query.status.unwrap_or(DeadLetterStatus::Open);
    let page = app.engine.ledger.list_dead_letters(tenant, lane, Some(status), before, limit).await?;
    let mut entries = Vec::with_capacity(page.items.len());
    for d in page.items {
        let closer = match d.closed_by.as_deref() {
            Some(by) => Some(app.actors.view(by).await),
            None => None,
        };
        entries.push(DeadLetterView {
            job_id: d.job,
            number: d.number,
            r#type: d.task_type,
            lane: d.lane,
            at: d.at,
            status: d.status,
            attempts: d.attempts,
            class: d.class,
            error: d.error,
            closed_at: d.closed_at,
            closed_by: d.closed_by,
            closer,
            reason: d.reason,
            replayed_as: d.replayed_as,
        });
    }
    Ok(Json(DeadLetterPage {
        entries,
        next_cursor: page.next.map(|id| app.cursors.write(&name, tenant, &id.to_string())),
    }))
}
