//! `POST /jobs`: ask for a job. Answered when it is durable.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use bowline_engine::JobRequest;
use bowline_model::blueprint::BlueprintField;
use bowline_model::fleet::Rollout;
use bowline_model::host::Vars;
use bowline_model::workflow::{Breakpoint, WorkflowField};
use bowline_model::{HostName, InventoryName, JobPolicy, Labels, Lane, RunError, TaskType, Timestamp};
use bowline_store::Submitted;
use hyper::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::app::App;
use crate::body::{Body, check_exact};
use crate::commands::{self, CommandField, CommandWish};
use crate::context::Context;
use crate::door::Known;
use crate::flows::{FlowWish, RunField};
use crate::problem::Problem;
use crate::views::job_word;

/// A wish.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitRequest {
    /// What sort of work it is. Workers say which of these they take. This, or `command`.
    #[serde(default)]
    pub r#type: Option<TaskType>,
    /// What to work on. Kept exactly as written.
    #[serde(default)]
    pub payload: Option<Box<RawValue>>,
    #[serde(default)]
    pub lane: Option<Lane>,
    /// Higher goes first within its line.
    #[serde(default)]
    #[schemars(range(min = -100, max = 100))]
    pub priority: i16,
    /// Not before this moment.
    #[serde(default)]
    pub run_at: Option<Timestamp>,
    /// The same key and the same wish give the same job. The header `Idempotency-Key` says the same.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// The caller's own name for the job; unique like a key.
    #[serde(default)]
    pub external_id: Option<String>,
    /// Labels a worker must have.
    #[serde(default)]
    pub labels: Labels,
    #[serde(default, deserialize_with = "bowline_model::shape::maybe_by_name")]
    pub policy: Option<JobPolicy>,
    /// A command to run on hosts: the name of a command type, `{"name", "version"}`, or a command as such a type has it.
    #[serde(default)]
    pub command: Option<CommandField>,
    /// Parameters of the command.
    #[serde(default)]
    pub params: Option<Vars>,
    /// The hosts, by name. These, or `selector`.
    #[serde(default)]
    pub hosts: Option<Vec<HostName>>,
    /// Which hosts, such as `role=web & site!=fra | db[1:20]`.
    #[serde(default)]
    pub selector: Option<String>,
    /// `main` unless given.
    #[serde(default)]
    pub inventory: Option<InventoryName>,
    /// How the command spreads over its hosts.
    #[serde(default, deserialize_with = "bowline_model::shape::maybe_by_name")]
    pub rollout: Option<Rollout>,
    /// How long all of it may take, from the moment it begins.
    #[serde(default)]
    pub deadline_ms: Option<u64>,
    /// A workflow to run: its name, `{"name", "version"}`, or a definition.
    #[serde(default)]
    pub workflow: Option<WorkflowField>,
    /// What the workflow is given: `webhook.payload` in its expressions.
    #[serde(default)]
    pub input: Option<Box<RawValue>>,
    /// A blueprint to run: its name, `{"name", "version"}`, or a definition.
    #[serde(default)]
    pub blueprint: Option<BlueprintField>,
    /// What the blueprint begins with: `variables` in its expressions.
    #[serde(default)]
    pub data: Option<Box<RawValue>>,
    /// Stop the workflow after each node.
    #[serde(default)]
    pub debug: bool,
    /// Nodes before which the workflow stops.
    #[serde(default)]
    pub breakpoints: Vec<Breakpoint>,
}

impl SubmitRequest {
    /// Fields that mean something for commands only, or for anything but commands only.
    fn misplaced(&self) -> Option<(&'static str, &'static str)> {
        let (task, command) = ("belongs to a job with a `type`", "belongs to a job with a `command`");
        let flow = "belongs to a job with a `workflow`";
        let one = "a job has a `type`, a `command`, a `workflow` or a `blueprint`, one of them";
        let (is_workflow, is_blueprint) = (self.workflow.is_some(), self.blueprint.is_some());
        let (is_command, is_flow) = (self.command.is_some(), is_workflow || is_blueprint);
        let other = is_command || is_flow;
        let given = [
            ("type", self.r#type.is_some() && other, one),
            ("command", is_command && is_flow, one),
            ("blueprint", is_blueprint && is_workflow, one),
            ("payload", self.payload.is_some() && other, task),
            ("labels", !self.labels.is_empty() && other, task),
            ("policy", self.policy.is_some() && other, task),
            ("params", self.params.is_some() && !is_command, command),
            ("hosts", self.hosts.is_some() && !is_command, command),
            ("selector", self.selector.is_some() && !is_command, command),
            ("inventory", self.inventory.is_some() && !is_command, command),
            ("rollout", self.rollout.is_some() && !is_command, command),
            ("deadline_ms", self.deadline_ms.is_some() && !is_command, command),
            ("input", self.input.is_some() && !is_workflow, flow),
            ("data", self.data.is_some() && !is_blueprint, "belongs to a job with a `blueprint`"),
            ("debug", self.debug && !is_flow, flow),
            ("breakpoints", !self.breakpoints.is_empty() && !is_flow, flow),
        ];
        given.into_iter().find(|(_, there, _)| *there).map(|(field, _, why)| (field, why))
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct IdempotencyView {
    pub key: Option<String>,
    pub replayed: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SubmitAnswer {
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
pub enum Wish {
    Task(JobRequest),
    Command(Box<CommandWish>),
    Workflow(Box<FlowWish>),
}

/// Checks a wish.
pub fn request(body: SubmitRequest, key: Option<String>, now: Timestamp) -> Result<Wish, Problem> {
    if let Some((field, why)) = body.misplaced() {
        return Err(Problem::validation(format!("{field}: {why}")).with(json!({"field": field})));
    }
    if !(-100..=100).contains(&body.priority) {
        return Err(Problem::validation("priority must be between -100 and 100").with(json!({"field": "priority"})));
    }
    if let Some(policy) = &body.policy {
        policy.check().map_err(|e| Problem::validation(format!("policy: {e}")).with(json!({"field": "policy"})))?;
    }
    if body.run_at.is_some_and(|at| at.millis_since(now) > AHEAD_MAX_MS || at.as_micros() < 0) {
        let message = "run_at must lie within ten years from now and after 1970";
        return Err(Problem::validation(message).with(json!({"field": "run_at"})));
    }
    let in_body = body.idempotency_key.as_deref().map(|k| key_of("idempotency_key", k)).transpose()?;
    if let (Some(header), Some(in_body)) = (&key, &in_body)
        && header != in_body
    {
        return Err(Problem::validation("the header Idempotency-Key and idempotency_key say different things"));
    }
    let external_id = body.external_id.as_deref().map(|k| key_of("external_id", k)).transpose()?;
    if let Some(command) = body.command {
        return Ok(Wish::Command(Box::new(CommandWish {
            command,
            params: body.params,
            inventory: body.inventory,
            hosts: body.hosts,
            selector: body.selector,
            rollout: body.rollout,
            deadline_ms: body.deadline_ms,
            lane: body.lane,
            priority: body.priority,
            run_at: body.run_at,
            idempotency_key: key.or(in_body),
            external_id,
        })));
    }
    let what = body.workflow.map(RunField::Workflow).or(body.blueprint.map(RunField::Blueprint));
    if let Some(workflow) = what {
        let (field, given) = if body.data.is_some() { ("data", body.data) } else { ("input", body.input) };
        let input = match given {
            None => Value::Null,
            Some(raw) => {
                check_exact(raw.get().as_bytes())?;
                serde_json::from_str(raw.get()).map_err(|e| Problem::validation(format!("{field}: {e}")))?
            }
        };
        return Ok(Wish::Workflow(Box::new(FlowWish {
            workflow,
            input,
            debug: body.debug,
            breakpoints: body.breakpoints,
            lane: body.lane,
            priority: body.priority,
            run_at: body.run_at,
            idempotency_key: key.or(in_body),
            external_id,
        })));
    }
    let Some(task_type) = body.r#type else {
        let message = "type: a job needs a `type`, or a `command` and its hosts";
        return Err(Problem::validation(message).with(json!({"field": "type"})));
    };
    if task_type.is_reserved() {
        let message = format!("type: those that begin with {:?} are not for jobs", TaskType::RESERVED);
        return Err(Problem::validation(message).with(json!({"field": "type"})));
    }
    let payload = body.payload.map_or_else(|| "null".into(), |raw| Arc::from(Box::<str>::from(raw)));
    Ok(Wish::Task(JobRequest {
        id: None,
        flow: None,
        fleet: None,
        lane: body.lane.unwrap_or_default(),
        task_type,
        labels: body.labels,
        priority: body.priority,
        payload,
        policy: body.policy.filter(|p| *p != JobPolicy::default()).map(Arc::new),
        run_at: body.run_at,
        idempotency_key: key.or(in_body),
        external_id,
    }))
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
    let stored = app.engine.intake.submit(tenant, &context.origin(&known.actor()), vec![request]).await?;
    let (id, number, status, at, replayed) = match stored.into_iter().next() {
        Some(Submitted::Accepted { id, number, status, at }) => (id, number, status, at, false),
        Some(Submitted::Replayed { id, number, status, at }) => (id, number, status, at, true),
        Some(Submitted::Conflict { key, .. }) => return Err(key_conflict(&key)),
        None => {
            return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL_ERROR", "the ledger gave no answer"));
        }
    };
    let answer = SubmitAnswer {
        job_id: id,
        number,
        status: job_word(status),
        queued_at: at,
        idempotency: IdempotencyView { key, replayed },
        result: None,
        error: None,
        request_id: context.request_id,
        trace_id: context.trace_id,
    };
    Ok((StatusCode::ACCEPTED, Json(answer)))
}
