//! `GET /jobs/{id}`: a job and its runs.

use axum::Json;
use axum::extract::State;
use bowline_model::{JobId, JobKind, JobStatus};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::commands::CommandView;
use crate::door::Known;
use crate::flows::WorkflowView;
use crate::params::{Nameable, Named};
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

pub async fn get(State(app): State<App>, known: Known, Named(job): Named<JobId>) -> Result<Json<JobAnswer>, Problem> {
    let tenant = known.tenant()?;
    let found = app.engine.ledger.find_job(tenant, job).await?;
    let (record, runs) = found.ok_or_else(no_job)?;
    let (mut command, mut workflow) = (None, None);
    match record.state.kind {
        JobKind::Command => command = app.engine.ledger.find_fleet(tenant, job).await?.map(Into::into),
        JobKind::Workflow => {
            let found = app.engine.ledger.find_flow(tenant, job).await?;
            // Before it begins, its moment is when it begins.
            let wakes_at = record.state.due_at.filter(|_| record.state.status != JobStatus::Pending);
            workflow = found.map(|flow| WorkflowView::new(flow, wakes_at));
            if let Some(view) = workflow.as_mut().filter(|_| record.state.status.is_terminal()) {
                view.final_state = app.engine.flows.final_state(tenant, job, view.steps).await?;
            }
        }
        JobKind::Task | JobKind::Unit(_) => {}
    }
    let runs = runs.into_iter().map(Into::into).collect();
    Ok(Json(JobAnswer { job: app.actors.job(record).await, runs, command, workflow }))
}
