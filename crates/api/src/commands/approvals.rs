//! `GET /approvals`: jobs that wait for somebody to say yes.

use axum::Json;
use axum::extract::State;
use bowline_model::{JobId, Timestamp};
use bowline_store::WaitKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::view::ApprovalView;
use crate::app::App;
use crate::door::Known;
use crate::params::{Params, page_size};
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApprovalsQuery {
    pub limit: Option<u32>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

/// What waits: a command on hosts, or a node of a workflow.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum WaitingView {
    Workflow(WaitingNode),
    Command(Box<WaitingCommand>),
}

/// A node of a workflow that waits for somebody to say yes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WaitingNode {
    pub job_id: JobId,
    pub workflow: String,
    pub node: String,
    pub visit: u32,
    /// What is to be approved.
    pub title: String,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct WaitingCommand {
    pub job_id: JobId,
    pub number: i64,
    pub command: String,
    pub hosts: u64,
    pub created_at: Timestamp,
    pub approval: ApprovalView,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ApprovalPage {
    /// Nodes of workflows first (at most a page of them), then commands; oldest first within each sort.
    pub approvals: Vec<WaitingView>,
    pub next_cursor: Option<String>,
}

pub async fn approvals(
    State(app): State<App>,
    known: Known,
    Params(query): Params<ApprovalsQuery>,
) -> Result<Json<ApprovalPage>, Problem> {
    let tenant = known.tenant()?;
    let limit = page_size(query.limit, &app)?;
    let after: Option<i64> = match query.cursor {
        None => None,
        Some(text) => Some(app.cursors.read("approvals", tenant, &text)?.parse().map_err(Problem::validation)?),
    };
    let cursor = |next: i64| app.cursors.write("approvals", tenant, &next.to_string());
    let mut approvals = Vec::new();
    if after.is_none() {
        let waits = app.engine.ledger.list_waits(tenant, WaitKind::Approval, limit).await?;
        approvals.extend(waits.into_iter().map(|waiting| {
            WaitingView::Workflow(WaitingNode {
                job_id: waiting.job,
                workflow: waiting.workflow,
                node: waiting.wait.node.to_string(),
                visit: waiting.wait.visit,
                title: waiting.wait.name.to_string(),
                created_at: waiting.since,
                expires_at: waiting.wait.expires_at,
            })
        }));
    }
    let room = limit - u32::try_from(approvals.len()).unwrap_or(limit);
    if room == 0 {
        // The commands begin on the next page: their numbers begin with 1.
        return Ok(Json(ApprovalPage { approvals, next_cursor: Some(cursor(0)) }));
    }
    let page = app.engine.ledger.list_approvals(tenant, after, room).await?;
    approvals.extend(page.items.into_iter().map(|waiting| {
        WaitingView::Command(Box::new(WaitingCommand {
            job_id: waiting.job,
            number: waiting.number,
            command: waiting.command,
            hosts: waiting.hosts,
            created_at: waiting.created_at,
            approval: waiting.approval.into(),
        }))
    }));
    Ok(Json(ApprovalPage { approvals, next_cursor: page.next.map(cursor) }))
}
