//! `GET /jobs/{id}`: a job and its runs.

use axum::Json;
use axum::extract::State;
use bowline_model::{JobId, JobKind, JobStatus, TenantId};
use bowline_store::JobRef;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::app::App;
use crate::commands::CommandView;
use crate::door::Known;
use crate::flows::WorkflowView;
use crate::params::{Nameable, Part};
use crate::problem::Problem;
use crate::views::{JobView, RunView};

#[derive(Debug, Serialize, JsonSchema)]
pub struct JobAnswer {
    pub job: JobView,
    /// Oldest first.
    pub runs: Vec<RunView>,
    /// For a command on hosts: how far it has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandView>,
    /// For a run of a workflow: how far it has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowView>,
}

/// The one refusal for a job that is not there, or not the caller's.
pub fn no_job() -> Problem {
    Problem::not_found(JobId::CODE, JobId::WHAT)
}

/// The shortest end of an id that names a job.
const SUFFIX_MIN: usize = 4;

/// The job that a text means: its id, its number (`5003` or `#5003`), or the end of its id if only one job has it.
pub(super) async fn resolve(app: &App, tenant: TenantId, text: &str) -> Result<JobId, Problem> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let ledger = &app.engine.ledger;
    let digits = text.strip_prefix('#').unwrap_or(text);
    if let Some(number) = digits.parse().ok().filter(|number| *number > 0 && digits.len() <= 18) {
        let found = ledger.resolve_job(tenant, JobRef::Number(number)).await?;
        if let [job] = found.as_slice() {
            return Ok(*job);
        }
    }
    let suffix: String = text.chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase()).collect();
    if suffix.len() < SUFFIX_MIN || suffix.len() > 32 || !suffix.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err(no_job());
    }
    let found = ledger.resolve_job(tenant, JobRef::Suffix(suffix)).await?;
    match found.as_slice() {
        [] => Err(no_job()),
        [job] => Ok(*job),
        several => {
            let message = "several jobs have an id that ends like this; give more of it";
            Err(Problem::conflict("JOB_AMBIGUOUS", message).with(json!({ "jobs": several })))
        }
    }
}

pub async fn get(State(app): State<App>, known: Known, Part(text): Part) -> Result<Json<JobAnswer>, Problem> {
    let tenant = known.tenant()?;
    let job = resolve(&app, tenant, &text).await?;
    let found = app.engine.ledger.find_job(tenant, job).await?;
    let (record, runs) = found.ok_or_else(no_job)?;
    let (mut command, mut workflow) = (None, None);
    match record.state.kind {
        JobKind::Command => {
            if let Some(fleet) = app.engine.ledger.find_fleet(tenant, job).await? {
                command = Some(app.actors.command(fleet.into()).await);
            }
        }
        JobKind::Workflow => {
            let found = app.engine.ledger.find_flow(tenant, job).await?;
            // Before it begins, its moment is when it begins.
            let wakes_at = record.state.due_at.filter(|_| record.state.status != JobStatus::Pending);
            let created_by = app.actors.view(&record.origin.actor).await;
            workflow = found.map(|flow| WorkflowView::new(flow, created_by, wakes_at));
            if let Some(view) = workflow.as_mut().filter(|_| record.state.status.is_terminal()) {
                view.final_state = app.engine.flows.final_state(tenant, job, view.steps).await?;
            }
        }
        JobKind::Task | JobKind::Unit(_) => {}
    }
    let runs = runs.into_iter().map(Into::into).collect();
    Ok(Json(JobAnswer { job: app.actors.job(record).await, runs, command, workflow }))
}
