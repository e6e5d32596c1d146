//! `GET /approvals`: jobs that wait for somebody to say yes.

use axum::Json;
use axum::extract::State;
use bowline_model::{JobId, Timestamp};
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

#[derive(Debug, Serialize, JsonSchema)]
pub struct WaitingView {
    pub job_id: JobId,
    pub number: i64,
    pub command: String,
    pub hosts: u64,
    pub created_at: Timestamp,
    pub approval: ApprovalView,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ApprovalPage {
    /// Oldest first.
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
    let page = app.engine.ledger.list_approvals(tenant, after, limit).await?;
    let approvals = page.items.into_iter().map(|waiting| WaitingView {
        job_id: waiting.job,
        number: waiting.number,
        command: waiting.command,
        hosts: waiting.hosts,
        created_at: waiting.created_at,
        approval: waiting.approval.into(),
    });
    Ok(Json(ApprovalPage {
        approvals: approvals.collect(),
        next_cursor: page.next.map(|next| app.cursors.write("approvals", tenant, &next.to_string())),
    }))
}
