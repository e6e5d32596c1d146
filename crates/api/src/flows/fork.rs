//! `POST /jobs/{id}/fork`: a new run that goes on from a step of another, with what was known there.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use bowline_auth::Scope;
use bowline_engine::flow::{Definition, Forking};
use bowline_model::workflow::WorkflowSpec;
use bowline_model::{JobId, Timestamp};
use bowline_store::Submitted;
use hyper::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::problem::definition;
use super::view::ForkedFrom;
use crate::app::App;
use crate::body::ExactBody;
use crate::context::Context;
use crate::door::Known;
use crate::jobs::{IdempotencyView, header_key, key_conflict};
use crate::params::Named;
use crate::problem::Problem;
use crate::versions::active_execution_only;
use crate::views::job_word;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkRequest {
    /// The step after which it goes on; 0 is the beginning.
    pub from_step: u32,
    #[serde(default)]
    pub patch: Patch,
    /// Another definition to go on with. It must have the nodes where the run was.
    #[serde(default)]
    #[schemars(with = "Option<WorkflowSpec>")]
    pub definition: Option<Value>,
    /// Stop after each node.
    #[serde(default)]
    pub debug: bool,
}

/// What is to be different.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Patch {
    /// Variables to set before it goes on.
    pub variables: Map<String, Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ForkView {
    pub id: JobId,
    /// The same as `id`.
    pub job_id: JobId,
    pub number: i64,
    pub status: &'static str,
    pub queued_at: Timestamp,
    pub forked_from: ForkedFrom,
    pub idempotency: IdempotencyView,
    pub links: ForkLinks,
    pub request_id: Arc<str>,
    pub trace_id: Arc<str>,
}

/// Where to look.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ForkLinks {
    pub job: String,
    pub parent: String,
}

pub async fn fork(
    State(app): State<App>,
    known: Known,
    context: Context,
    Named(job): Named<JobId>,
    headers: HeaderMap,
    ExactBody(body): ExactBody<ForkRequest>,
) -> Result<(StatusCode, Json<ForkView>), Problem> {
    let other = match body.definition {
        None => None,
        Some(value) => {
            // Whoever may only run what others have written cannot write it here.
            known.require(Scope::ResourcesWrite)?;
            let other = definition(known.tenant()?, value).await?;
            if let Definition::Workflow(spec) = &other
                && spec.has_inline_command()
            {
                known.require(Scope::FleetWrite)?;
            }
            Some(other)
        }
    };
    let (tenant, from_step) = (known.tenant()?, body.from_step);
    if other.is_none() {
        // The fork is pinned to what the execution was pinned to.
        active_execution_only(&app, &known, job).await?;
    }
    // A yes was for one run. Whoever takes it into another says it again.
    // And what is changed by hand is changed by those who may decide about it.
    let patched = !body.patch.variables.is_empty();
    if app.engine.flows.decided_before(tenant, job, from_step).await?
        || (patched && app.engine.flows.asks_people(tenant, job).await?)
    {
        known.require(Scope::ApprovalsWrite)?;
    }
    let key = header_key(&headers)?;
    let variables = body.patch.variables;
    let forking = Forking { from_step, variables, definition: other, debug: body.debug, key: key.clone() };
    let (engine, origin) = (&app.engine, context.origin(&known.0));
    let submitted = engine.flows.fork(engine.hands(), tenant, job, &origin, forking).await?;
    let (job_id, number, status, queued_at, replayed, pruned) = match submitted {
        Submitted::Accepted { id, number, status, at } => (id, number, job_word(status), at, false, false),
        Submitted::Replayed { id, number, status, at } => (id, number, job_word(status), at, true, false),
        Submitted::Pruned { id, number, status, at } => (id, number, crate::jobs::pruned_word(status), at, true, true),
        Submitted::Conflict { key, .. } => return Err(key_conflict(&key)),
    };
    let view = ForkView {
        id: job_id,
        job_id,
        number,
        status,
        queued_at,
        forked_from: ForkedFrom { job_id: job, step: from_step },
        idempotency: IdempotencyView { key, replayed, pruned },
        links: ForkLinks { job: format!("/jobs/{job_id}"), parent: format!("/jobs/{job}") },
        request_id: context.request_id,
        trace_id: context.trace_id,
    };
    Ok((StatusCode::ACCEPTED, Json(view)))
}
