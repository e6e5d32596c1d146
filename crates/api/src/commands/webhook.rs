//! The face of seed 000: `POST /webhook/jobs`, `GET /webhook/jobs/{id}`, `GET /jobs/{id}/executions`, in its words.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use bowline_model::fleet::{ApprovalState, Rollout};
use bowline_model::host::{HostRef, Vars};
use bowline_model::start::{CommandField, CommandStart};
use bowline_model::{HostName, InventoryName, JobId, ResourceName, Timestamp};
use bowline_store::Submitted;
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hosts::{HostsQuery, page};
use super::request::CommandWish;
use super::view::{BlockedView, UnitView};
use crate::app::App;
use crate::body::Body;
use crate::context::Context;
use crate::door::Known;
use crate::jobs::{key_conflict, key_of, no_job};
use crate::params::{Named, Params};
use crate::problem::Problem;
use crate::views::job_word;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookRequest {
    /// The sender's own name for the job: the same one is the same job.
    pub external_id: String,
    pub command_type: ResourceName,
    #[serde(default)]
    pub params: Option<Vars>,
    /// Names or numbers of hosts.
    #[serde(default)]
    pub hosts: Option<Vec<HostRef>>,
    #[serde(default)]
    pub selector: Option<String>,
    #[serde(default)]
    pub inventory: Option<InventoryName>,
    #[serde(default, deserialize_with = "bowline_model::shape::maybe_by_name")]
    pub rollout: Option<Rollout>,
    #[serde(default)]
    pub deadline_ms: Option<u64>,
    #[serde(default)]
    pub run_at: Option<Timestamp>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct WebhookAnswer {
    pub job_id: JobId,
    pub external_id: String,
    /// WAIT_APPROVAL, or nothing where none is needed.
    pub approval_state: Option<&'static str>,
    pub status: &'static str,
    /// The same delivery was taken before.
    pub duplicate: bool,
    /// Retention has removed the job; it is not run again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pruned: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct WebhookView {
    pub job_id: JobId,
    pub external_id: Option<String>,
    pub command_type: String,
    /// WAIT_APPROVAL, APPROVED, REJECTED, EXPIRED, SUPERSEDED, or nothing where none is needed.
    pub approval_state: Option<&'static str>,
    pub status: &'static str,
    /// How many hosts stand where.
    pub executions: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ExecutionView {
    pub host_id: i64,
    pub host: HostName,
    /// NEW, QUEUED, RUNNING, SUCCESS, FAILED, TIMEOUT, UNREACHABLE, BLOCKED, CANCELLED.
    pub status: &'static str,
    pub attempts: u32,
    pub exit_code: Option<i32>,
    /// Also why it may not run there, if it is blocked.
    pub error: Option<String>,
    pub blocked: Option<BlockedView>,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ExecutionPage {
    pub executions: Vec<ExecutionView>,
    pub next_cursor: Option<String>,
}

/// The word for where a host stands, on this face.
fn execution_word(status: &str) -> &'static str {
    match status {
        "new" => "NEW",
        "pending" | "queued" => "QUEUED",
        "running" | "canceling" => "RUNNING",
        "success" => "SUCCESS",
        "blocked" => "BLOCKED",
        "canceled" => "CANCELLED",
        "timed_out" => "TIMEOUT",
        "unreachable" => "UNREACHABLE",
        _ => "FAILED",
    }
}

/// A status as the other lists call it, for a word of this face or of theirs.
fn status_of_word(word: String) -> String {
    match word.as_str() {
        "TIMEOUT" | "timeout" => "timed_out".to_owned(),
        "CANCELLED" | "cancelled" => "canceled".to_owned(),
        "NEW" | "QUEUED" | "RUNNING" | "SUCCESS" | "FAILED" | "UNREACHABLE" | "BLOCKED" => word.to_ascii_lowercase(),
        _ => word,
    }
}

const fn approval_word(state: ApprovalState) -> Option<&'static str> {
    match state {
        ApprovalState::Required => Some("WAIT_APPROVAL"),
        ApprovalState::Approved => Some("APPROVED"),
        ApprovalState::Rejected => Some("REJECTED"),
        ApprovalState::Expired => Some("EXPIRED"),
        ApprovalState::Superseded => Some("SUPERSEDED"),
        ApprovalState::Withdrawn => None,
    }
}

/// `POST /webhook/jobs`
pub async fn webhook(
    State(app): State<App>,
    known: Known,
    context: Context,
    Body(body): Body<WebhookRequest>,
) -> Result<(StatusCode, Json<WebhookAnswer>), Problem> {
    let tenant = known.tenant()?;
    let external_id = key_of("external_id", &body.external_id)?;
    let wish = CommandWish {
        start: CommandStart {
            command: CommandField::Name(body.command_type),
            params: body.params.unwrap_or_default(),
            inventory: body.inventory,
            hosts: body.hosts,
            selector: body.selector,
            rollout: body.rollout,
            deadline_ms: body.deadline_ms,
            lane: Some(bowline_model::Lane::Webhook),
            priority: 0,
        },
        run_at: body.run_at,
        idempotency_key: None,
        external_id: Some(external_id.clone()),
    };
    let (job_id, status, duplicate, pruned) = match wish.store(&app, &known, &context).await? {
        Submitted::Accepted { id, status, .. } => (id, job_word(status), false, false),
        Submitted::Replayed { id, status, .. } => (id, job_word(status), true, false),
        Submitted::Pruned { id, status, .. } => (id, crate::jobs::pruned_word(status), true, true),
        Submitted::Conflict { key, .. } => return Err(key_conflict(&key)),
    };
    let approval = app.engine.ledger.find_fleet(tenant, job_id).await?.and_then(|fleet| fleet.approval);
    let answer = WebhookAnswer {
        job_id,
        external_id,
        approval_state: approval.and_then(|approval| approval_word(approval.state)),
        status,
        duplicate,
        pruned,
    };
    Ok((if duplicate { StatusCode::OK } else { StatusCode::ACCEPTED }, Json(answer)))
}

/// `GET /webhook/jobs/{id}`
pub async fn webhook_job(
    State(app): State<App>,
    known: Known,
    Named(job): Named<JobId>,
) -> Result<Json<WebhookView>, Problem> {
    let tenant = known.tenant()?;
    let (record, _) = app.engine.ledger.find_job(tenant, job).await?.ok_or_else(no_job)?;
    let fleet = app.engine.ledger.find_fleet(tenant, job).await?.ok_or_else(no_job)?;
    let over = record.state.status.is_terminal();
    let mut executions: BTreeMap<&'static str, u64> = BTreeMap::new();
    for (status, units) in fleet.tally.counts() {
        *executions.entry(execution_word(job_word(status))).or_default() += units;
    }
    let new = fleet.total.saturating_sub(fleet.planned);
    if new > 0 {
        *executions.entry(if over { "CANCELLED" } else { "NEW" }).or_default() += new;
    }
    Ok(Json(WebhookView {
        job_id: job,
        external_id: record.external_id,
        command_type: fleet.command,
        approval_state: fleet.approval.and_then(|approval| approval_word(approval.state)),
        status: job_word(record.state.status),
        executions,
    }))
}

impl From<UnitView> for ExecutionView {
    fn from(unit: UnitView) -> Self {
        Self {
            host_id: unit.host_id,
            host: unit.host,
            status: execution_word(unit.status),
            attempts: unit.attempts,
            exit_code: unit.exit_code,
            error: unit.error.map(|error| error.message).or_else(|| {
                unit.blocked.as_ref().map(|rule| format!("blocked by {}: {}", rule.actor.name, rule.reason))
            }),
            blocked: unit.blocked,
            started_at: unit.started_at,
            finished_at: unit.finished_at,
        }
    }
}

/// `GET /jobs/{id}/executions`
pub async fn executions(
    State(app): State<App>,
    known: Known,
    Named(job): Named<JobId>,
    Params(mut query): Params<HostsQuery>,
) -> Result<Json<ExecutionPage>, Problem> {
    query.status = query.status.map(status_of_word);
    let (hosts, next_cursor) = page(&app, &known, job, query).await?;
    Ok(Json(ExecutionPage { executions: hosts.into_iter().map(Into::into).collect(), next_cursor }))
}
