//! `POST /jobs`: ask for a job. Answered when it is durable.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use bowline_engine::JobRequest;
use bowline_engine::builtin::BadPayload;
use bowline_model::resource::BadSpec;
use bowline_model::start::StartSpec;
use bowline_model::{RunError, TenantId, Timestamp};
use bowline_store::Submitted;
use hyper::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::app::App;
use crate::body::{Body, check_exact};
use crate::commands::{self, CommandWish};
use crate::context::Context;
use crate::door::Known;
use crate::flows::FlowWish;
use crate::problem::Problem;
use crate::resources::spec_code;
use crate::views::job_word;

pub use bowline_model::start::SubmitRequest;

#[derive(Debug, Serialize, JsonSchema)]
pub struct IdempotencyView {
    pub key: Option<String>,
    pub replayed: bool,
    /// Retention has removed the job; it is not run again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pruned: bool,
}

/// The word for a job that retention has removed, where nobody remembers how it ended.
pub fn pruned_word(status: Option<bowline_model::JobStatus>) -> &'static str {
    status.map_or("pruned", job_word)
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SubmitAnswer {
    pub id: bowline_model::JobId,
    /// The same as `id`.
    pub job_id: bowline_model::JobId,
    pub number: i64,
    pub status: &'static str,
    pub queued_at: Timestamp,
    pub idempotency: IdempotencyView,
    /// What came of a workflow that was over at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// Why a workflow failed at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    pub request_id: Arc<str>,
    pub trace_id: Arc<str>,
}

/// Runs this far ahead are a mistake, not a schedule.
const AHEAD_MAX_MS: i64 = 10 * 366 * 24 * 60 * 60 * 1_000;
const KEY_MAX: usize = 256;

/// A key exactly as a client wrote it.
pub fn key_of(what: &str, text: &str) -> Result<String, Problem> {
    if text.is_empty() || text.len() > KEY_MAX || text.chars().any(char::is_control) {
        let message = format!("{what} must have between 1 and {KEY_MAX} characters and no control characters");
        return Err(Problem::validation(message).with(json!({"field": what})));
    }
    Ok(text.to_owned())
}

/// A wish, checked.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most wishes are tasks, and each is taken apart at once")]
pub enum Wish {
    Task(JobRequest),
    Command(Box<CommandWish>),
    Workflow(Box<FlowWish>),
}

/// Checks a wish.
pub fn request(body: SubmitRequest, key: Option<String>, now: Timestamp) -> Result<Wish, Problem> {
    let (start, asked) = body.split().map_err(|e| Problem::validation(e).with(json!({"field": e.field})))?;
    if asked.run_at.is_some_and(|at| at.millis_since(now) > AHEAD_MAX_MS || at.as_micros() < 0) {
        let message = "run_at must lie within ten years from now and after 1970";
        return Err(Problem::validation(message).with(json!({"field": "run_at"})));
    }
    let in_body = asked.idempotency_key.as_deref().map(|k| key_of("idempotency_key", k)).transpose()?;
    if let (Some(header), Some(in_body)) = (&key, &in_body)
        && header != in_body
    {
        return Err(Problem::validation("the header Idempotency-Key and idempotency_key say different things"));
    }
    let external_id = asked.external_id.as_deref().map(|k| key_of("external_id", k)).transpose()?;
    let (run_at, idempotency_key) = (asked.run_at, key.or(in_body));
    match start {
        StartSpec::Command(start) => {
            Ok(Wish::Command(Box::new(CommandWish { start: *start, run_at, idempotency_key, external_id })))
        }
        StartSpec::Task(start) => {
            start.check().map_err(misfit)?;
            Ok(Wish::Task(JobRequest { run_at, idempotency_key, external_id, ..start.into() }))
        }
        StartSpec::Workflow(start) => {
            start.check().map_err(misfit)?;
            if let Some(input) = start.given() {
                check_exact(input.as_str().as_bytes())?;
            }
            let (name, debug, breakpoints) = (asked.name, asked.debug, asked.breakpoints);
            let wish = FlowWish { start: *start, name, debug, breakpoints, run_at, idempotency_key, external_id };
            Ok(Wish::Workflow(Box::new(wish)))
        }
    }
}

/// A wish whose parts do not fit together.
pub fn misfit(bad: BadSpec) -> Problem {
    let field = bad.path.clone();
    Problem::new(StatusCode::BAD_REQUEST, spec_code(&bad), bad).with(json!({"field": field}))
}

/// Looks at a task before its job is stored: what is wrong with its payload now would be wrong when its run begins. One
/// that was accepted before is answered instead.
pub async fn check_task(app: &App, tenant: TenantId, task: &JobRequest) -> Result<Option<Submitted>, Problem> {
    let Err(bad) = app.engine.checks.task(tenant, &task.task_type, &task.payload).await? else { return Ok(None) };
    let sent = app.engine.intake.find_task(tenant, task).await?;
    sent.map(Some).ok_or_else(|| {
        let denied = bad.code == BadPayload::DENIED;
        let status = if denied { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::BAD_REQUEST };
        let code = if denied { "EGRESS_DENIED" } else { "VALIDATION_ERROR" };
        let field = if bad.place.is_empty() { "payload".to_owned() } else { format!("payload.{}", bad.place) };
        Problem::new(status, code, format!("{field}: {}", bad.what)).with(json!({"field": field}))
    })
}

/// The refusal for a key that belongs to another wish.
pub fn key_conflict(key: &str) -> Problem {
    Problem::conflict("IDEMPOTENCY_CONFLICT", "this key was used before with another body").with(json!({"key": key}))
}

/// The key of the header, if there is one.
pub fn header_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut given = headers.get_all("idempotency-key").iter();
    let Some(value) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(Problem::validation("send one Idempotency-Key"));
    }
    let text = value.to_str().map_err(|_| Problem::validation("Idempotency-Key must be plain text"))?.trim();
    // Bare, or quoted as the standard wants it.
    let text = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(text);
    key_of("Idempotency-Key", text).map(Some)
}

pub async fn submit(
    State(app): State<App>,
    known: Known,
    context: Context,
    headers: HeaderMap,
    Body(body): Body<SubmitRequest>,
) -> Result<(StatusCode, Json<SubmitAnswer>), Problem> {
    let tenant = known.tenant()?;
    let request = match request(body, header_key(&headers)?, app.engine.clock.now())? {
        Wish::Task(request) => request,
        Wish::Command(wish) => return commands::submit(&app, &known, context, *wish).await,
        Wish::Workflow(wish) => return Box::pin(wish.submit(&app, &known, context)).await,
    };
    let key = request.idempotency_key.clone();
    let stored = match check_task(&app, tenant, &request).await {
        Ok(None) => app.engine.intake.submit(tenant, &context.origin(&known.0), vec![request]).await?,
        Ok(Some(sent)) => vec![sent],
        Err(problem) => return Err(problem),
    };
    let (id, number, status, at, replayed, pruned) = match stored.into_iter().next() {
        Some(Submitted::Accepted { id, number, status, at }) => (id, number, job_word(status), at, false, false),
        Some(Submitted::Replayed { id, number, status, at }) => (id, number, job_word(status), at, true, false),
        Some(Submitted::Pruned { id, number, status, at }) => (id, number, pruned_word(status), at, true, true),
        Some(Submitted::Conflict { key, .. }) => return Err(key_conflict(&key)),
        None => {
            return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL_ERROR", "the ledger gave no answer"));
        }
    };
    let answer = SubmitAnswer {
        id,
        job_id: id,
        number,
        status,
        queued_at: at,
        idempotency: IdempotencyView { key, replayed, pruned },
        result: None,
        error: None,
        request_id: context.request_id,
        trace_id: context.trace_id,
    };
    Ok((StatusCode::ACCEPTED, Json(answer)))
}
