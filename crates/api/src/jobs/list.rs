//! `GET /jobs`: newest first, filtered, page by page.

use axum::Json;
use axum::extract::State;
use bowline_model::{JobId, JobStatus, Lane, TaskType, Timestamp};
use bowline_store::JobFilter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

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
    /// Executions of the workflow or blueprint of this name.
    pub workflow: Option<String>,
    /// Jobs of this actor: its id, such as `token:2h3463nfj9yk1hn9`, or the name of a token, service or worker.
    pub actor: Option<String>,
    /// Jobs that require this label, as `name=value`.
    pub label: Option<String>,
    /// Jobs that this execution of a workflow started.
    pub parent: Option<JobId>,
    /// `false` leaves out what executions of workflows started.
    pub children: Option<bool>,
    /// Jobs with this text in their type, workflow, command, error, external id, correlation id or idempotency key.
    pub text: Option<String>,
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

/// Texts longer than this are in no job.
const TEXT_MAX: usize = 200;

/// A text to look for: as long as one that may be found.
pub fn bounded(field: &str, text: Option<String>) -> Result<Option<String>, Problem> {
    match text {
        Some(text) if text.is_empty() || text.chars().count() > TEXT_MAX || text.contains('\0') => {
            let what = format!("{field}: between 1 and {TEXT_MAX} characters are expected");
            Err(Problem::validation(what).with(json!({ "field": field })))
        }
        text => Ok(text),
    }
}

fn label(text: &str) -> Result<(String, String), Problem> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !name.contains(' ') && !value.contains(' ') => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => {
            let what = "label: a name, = and a value are expected, such as site=fra";
            Err(Problem::validation(what).with(json!({"field": "label"})))
        }
    }
}

pub async fn list(
    State(app): State<App>,
    known: Known,
    Params(query): Params<ListQuery>,
) -> Result<Json<JobPage>, Problem> {
    let tenant = known.tenant()?;
    let limit = page_size(query.limit, &app)?;
    let (status, paused_for) = match query.status.as_deref() {
        None => (None, None),
        Some("sleeping") => (None, Some("sleep")),
        Some("awaiting_event") => (None, Some("event")),
        Some("stepping") => (None, Some("debug")),
        // Commands have a status for it, workflows pause.
        Some("awaiting_approval") => (Some(JobStatus::AwaitingApproval), Some("approval")),
        Some(word) => (Some(job_status(word).map_err(Problem::validation)?), None),
    };
    let filter = JobFilter {
        status,
        paused_for,
        workflow: bounded("workflow", query.workflow)?,
        actors: app.actors.named(tenant, query.actor).await?,
        label: bounded("label", query.label)?.map(|text| label(&text)).transpose()?,
        parent: query.parent,
        no_children: query.children == Some(false),
        text: bounded("text", query.text)?,
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
