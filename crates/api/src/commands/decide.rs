//! `POST /jobs/{id}/approve` and `/reject`: one person's yes or no.

use axum::Json;
use axum::extract::State;
use bowline_engine::fleet::VoteRequest;
use bowline_model::JobId;
use bowline_model::fleet::{ApprovalRefused, Decided};
use bowline_model::idempotency::RequestHash;
use bowline_store::{ApprovalAnswer, FlowAnswer};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::view::unhex;
use crate::app::App;
use crate::body::MaybeBody;
use crate::door::Known;
use crate::flows::{hear, not_taken};
use crate::jobs::{no_job, reason_of};
use crate::params::Named;
use crate::problem::Problem;
use crate::views::job_word;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DecideRequest {
    /// Kept with the decision.
    pub reason: Option<String>,
    /// `approval.hash` of what was looked at. If something else would run, the decision does not count.
    pub hash: Option<String>,
    /// Of a workflow: which node, if several wait.
    pub node: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct DecidedView {
    pub job_id: JobId,
    /// approved, rejected, or noted while more people must say yes.
    pub decision: &'static str,
    /// How many more must say yes.
    pub missing: u32,
    pub status: &'static str,
}

pub async fn approve(
    State(app): State<App>,
    known: Known,
    Named(job): Named<JobId>,
    MaybeBody(body): MaybeBody<DecideRequest>,
) -> Result<Json<DecidedView>, Problem> {
    decide(&app, &known, job, body, true).await
}

pub async fn reject(
    State(app): State<App>,
    known: Known,
    Named(job): Named<JobId>,
    MaybeBody(body): MaybeBody<DecideRequest>,
) -> Result<Json<DecidedView>, Problem> {
    decide(&app, &known, job, body, false).await
}

async fn decide(
    app: &App,
    known: &Known,
    job: JobId,
    body: DecideRequest,
    yes: bool,
) -> Result<Json<DecidedView>, Problem> {
    if app.engine.ledger.flow_number(known.tenant()?, job).await?.is_some() {
        return decide_flow(app, known, job, body, yes).await;
    }
    if body.node.is_some() {
        return Err(Problem::validation("node: only workflows have nodes").with(json!({"field": "node"})));
    }
    let seen = seen_hash(body.hash.as_deref())?;
    let vote = VoteRequest { by: known.author(), yes, reason: reason_of(body.reason)?, seen };
    let tenant = known.tenant()?;
    let answer = app.engine.commands.decide(&app.engine.inventories, tenant, job, vote).await?;
    let (decided, status) = match answer {
        ApprovalAnswer::Decided(decided, status) => (decided, status),
        ApprovalAnswer::Refused(refused) => return Err(refusal(refused)),
        ApprovalAnswer::NotNeeded => {
            return Err(Problem::conflict("APPROVAL_NOT_NEEDED", "this job needs no approval"));
        }
        // A job that is no command needs no approval either; one that is not there is not told from it.
        ApprovalAnswer::NotFound => {
            return match app.engine.ledger.find_job(tenant, job).await? {
                Some(_) => Err(Problem::conflict("APPROVAL_NOT_NEEDED", "this job needs no approval")),
                None => Err(no_job()),
            };
        }
    };
    let (decision, missing) = match decided {
        Decided::Approved => ("approved", 0),
        Decided::Noted { missing } => ("noted", missing),
        Decided::Rejected => ("rejected", 0),
        Decided::Superseded => {
            let message = "what would run is not what was asked for any more; the job is over, ask for it anew";
            return Err(Problem::conflict("APPROVAL_SUPERSEDED", message).with(json!({"status": job_word(status)})));
        }
    };
    Ok(Json(DecidedView { job_id: job, decision, missing, status: job_word(status) }))
}

fn seen_hash(text: Option<&str>) -> Result<Option<RequestHash>, Problem> {
    let read = |text| {
        unhex(text).ok_or_else(|| Problem::validation("hash: 64 hexadecimal digits").with(json!({"field": "hash"})))
    };
    Ok(text.map(read).transpose()?.map(RequestHash::from_bytes))
}

/// The same for a node of a workflow.
async fn decide_flow(
    app: &App,
    known: &Known,
    job: JobId,
    body: DecideRequest,
    yes: bool,
) -> Result<Json<DecidedView>, Problem> {
    let tenant = known.tenant()?;
    let seen = seen_hash(body.hash.as_deref())?;
    let vote = VoteRequest { by: known.author(), yes, reason: reason_of(body.reason)?, seen };
    let answer = app.engine.flows.vote(tenant, job, body.node.as_deref(), vote).await?;
    not_taken(answer)?;
    hear(app, tenant, job).await;
    let (record, _) = app.engine.ledger.find_job(tenant, job).await?.ok_or_else(no_job)?;
    let (decision, missing) = match (answer, yes) {
        (FlowAnswer::Noted { missing }, _) => ("noted", missing),
        (_, true) => ("approved", 0),
        (_, false) => ("rejected", 0),
    };
    Ok(Json(DecidedView { job_id: job, decision, missing, status: job_word(record.state.status) }))
}

pub fn refusal(refused: ApprovalRefused) -> Problem {
    match refused {
        ApprovalRefused::NotWaiting(state) => {
            Problem::conflict("APPROVAL_DECIDED", refused).with(json!({"state": state.as_str()}))
        }
        ApprovalRefused::OwnJob | ApprovalRefused::OwnChange => {
            Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", refused)
        }
        ApprovalRefused::Twice => Problem::conflict("APPROVAL_DECIDED", refused),
        ApprovalRefused::OtherHash => Problem::conflict("APPROVAL_SUPERSEDED", refused),
    }
}
