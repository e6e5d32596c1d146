//! `GET /jobs`: newest first, filtered, page by page.

use axum::Json;
use axum::extract::State;
use bowline_model::{JobId, Lane, TaskType, Timestamp};
use bowline_store::JobFilter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::door::Known;
use crate::params::{Params, page_size};
use crate::problem::Problem;
use crate::views::{JobView, job_status};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ListQuery {
    pub status: Option<String>,
    pub lane: Option<Lane>,
    pub r#type: Option<TaskType>,
    pub created_after: Option<Timestamp>,
    pub created_before: Option<Timestamp>,
    pub limit: Option<u32>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct JobPage {
    pub jobs: Vec<JobView>,
    /// Where the next page begins. A page may be short although there is one.
    pub next_cursor: Option<String>,
}

pub async fn list(
    State(app): State<App>,
    known: Known,
    Params(query): Params<ListQuery>,
) -> Result<Json<JobPage>, Problem> {
    let tenant = known.tenant()?;
    let limit = page_size(query.limit, &app)?;
    let filter = JobFilter {
        status: query.status.as_deref().map(job_status).transpose().map_err(Problem::validation)?,
        lane: query.lane,
        task_type: query.r#type,
        created_after: query.created_after,
        created_before: query.created_before,
    };
    let before: Option<JobId> = match query.cursor {
        None => None,
        Some(text) => {
            let place = app.cursors.read("jobs", tenant, &text)?;
            Some(place.parse().map_err(Problem::validation)?)
        }
    };
    let page = app.engine.ledger.list_jobs(tenant, filter, before, limit).await?;
    let mut jobs = Vec::with_capacity(page.items.len());
    for job in page.items {
        jobs.push(app.actors.job(job).await);
    }
    Ok(Json(JobPage { jobs, next_cursor: page.next.map(|id| app.cursors.write("jobs", tenant, &id.to_string())) }))
}
