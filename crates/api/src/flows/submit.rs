//! The part of `POST /jobs` that asks for a run of a workflow.

use axum::Json;
use bowline_auth::Scope;
use bowline_engine::flow::{
    Begun, BlueprintChoice, FlowError, FlowRequest, FlowSubmitted, INLINE, WorkflowChoice, read_blueprint_aside,
    read_workflow_aside,
};
use bowline_model::blueprint::BlueprintField;
use bowline_model::start::{RunField, WorkflowStart};
use bowline_model::workflow::{Breakpoint, WorkflowField, WorkflowVersion};
use bowline_model::{JobStatus, ResourceName, Timestamp};
use bowline_store::Submitted;
use hyper::StatusCode;
use serde_json::json;

use super::problem::{bad_definition, unreadable};
use crate::app::App;
use crate::context::Context;
use crate::door::Known;
use crate::jobs::{IdempotencyView, SubmitAnswer, key_conflict, misfit};
use crate::problem::Problem;
use crate::versions::active_only;
use crate::views::raw;

/// Everything about a run that `POST /jobs` can say.
#[derive(Debug)]
pub struct FlowWish {
    pub start: WorkflowStart,
    /// What a definition that is part of the request is called.
    pub name: Option<ResourceName>,
    pub debug: bool,
    pub breakpoints: Vec<Breakpoint>,
    pub run_at: Option<Timestamp>,
    pub idempotency_key: Option<String>,
    pub external_id: Option<String>,
}

/// Why a run did not begin.
#[derive(Debug)]
pub enum Unbegun {
    /// The wish is wrong.
    Refused(Problem),
    /// The ledger is away. The same wish may be good a moment later.
    Later(Problem),
}

impl From<Unbegun> for Problem {
    fn from(unbegun: Unbegun) -> Self {
        match unbegun {
            Unbegun::Refused(problem) | Unbegun::Later(problem) => problem,
        }
    }
}

const BREAKPOINTS_MAX: usize = 100;

impl FlowWish {
    async fn request(self, known: &Known) -> Result<FlowRequest, Problem> {
        if self.breakpoints.len() > BREAKPOINTS_MAX {
            let message = format!("breakpoints: at most {BREAKPOINTS_MAX}");
            return Err(Problem::validation(message).with(json!({"field": "breakpoints"})));
        }
        let input = self.start.input_value().map_err(misfit)?;
        let name = self.name.map_or_else(|| INLINE.to_owned(), |name| name.to_string());
        let workflow = match self.start.run {
            RunField::Workflow(WorkflowField::Name(name)) => WorkflowChoice::Named { name, version: None },
            RunField::Workflow(WorkflowField::Version(WorkflowVersion { name, version })) => {
                WorkflowChoice::Named { name, version }
            }
            RunField::Blueprint(BlueprintField::Name(name)) => {
                WorkflowChoice::Blueprint(BlueprintChoice::Named { name, version: None })
            }
            RunField::Blueprint(BlueprintField::Version(WorkflowVersion { name, version })) => {
                WorkflowChoice::Blueprint(BlueprintChoice::Named { name, version })
            }
            RunField::Blueprint(BlueprintField::Inline(value)) => {
                known.require(Scope::ResourcesWrite)?;
                let spec =
                    read_blueprint_aside(known.tenant()?, value).await.map_err(|bad| unreadable("blueprint", &bad))?;
                WorkflowChoice::Blueprint(BlueprintChoice::Inline { name, spec: Box::new(spec) })
            }
            RunField::Workflow(WorkflowField::Inline(value)) => {
                // Whoever may only run what others have written cannot write it into the wish.
                known.require(Scope::ResourcesWrite)?;
                let spec =
                    read_workflow_aside(known.tenant()?, value).await.map_err(|bad| unreadable("workflow", &bad))?;
                if spec.has_inline_command() {
                    known.require(Scope::FleetWrite)?;
                }
                WorkflowChoice::Inline { name, spec: Box::new(spec) }
            }
        };
        Ok(FlowRequest {
            workflow,
            input,
            debug: self.debug,
            breakpoints: self.breakpoints,
            lane: self.start.lane.unwrap_or_default(),
            priority: self.start.priority,
            run_at: self.run_at,
            idempotency_key: self.idempotency_key,
            external_id: self.external_id,
        })
    }

    /// Takes the run's first turn, so that its job can be stored. What the ledger could not do now is told apart: it says
    /// nothing about the wish.
    pub async fn begin(self, app: &App, known: &Known, context: &Context) -> Result<Begun, Unbegun> {
        let field = self.start.run_field();
        let tenant = known.tenant().map_err(Unbegun::Refused)?;
        let named = self.start.run.named();
        let request = self.request(known).await.map_err(Unbegun::Refused)?;
        let (engine, origin) = (&app.engine, context.origin(&known.0));
        if let Some((kind, name, Some(version))) = named
            && let Err(problem) = active_only(app, known, kind, name, version).await
        {
            if problem.retry_after_s.is_some() {
                return Err(Unbegun::Later(problem));
            }
            let sent = engine.flows.find_sent(tenant, &request).await.map_err(|error| Unbegun::Later(error.into()))?;
            return sent.map(Begun::Sent).ok_or(Unbegun::Refused(problem));
        }
        engine.flows.begin(engine.hands(), tenant, &origin, request).await.map_err(|error| {
            let later = error.is_transient();
            let problem = match error {
                FlowError::Definition(error) => bad_definition(field, error),
                other => other.into(),
            };
            if later { Unbegun::Later(problem) } else { Unbegun::Refused(problem) }
        })
    }

    /// Begins the run and stores it. If it was over at once, how it ended is told as well.
    pub async fn submit(
        self,
        app: &App,
        known: &Known,
        context: Context,
    ) -> Result<(StatusCode, Json<SubmitAnswer>), Problem> {
        let (tenant, key) = (known.tenant()?, self.idempotency_key.clone());
        let engine = &app.engine;
        let answer = match self.begin(app, known, &context).await? {
            Begun::Sent(submitted) => Some(FlowSubmitted { submitted, result: None, error: None }),
            Begun::New(new) => {
                let (request, going) = *new;
                let stored = engine.intake.submit(tenant, &context.origin(&known.0), vec![request]).await?;
                stored.into_iter().next().map(|submitted| engine.flows.settle(submitted, going))
            }
        };
        let Some(FlowSubmitted { submitted, mut result, mut error }) = answer else {
            return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL_ERROR", "the ledger gave no answer"));
        };
        let (job_id, number, status, queued_at, replayed, pruned) = match submitted {
            Submitted::Accepted { id, number, status, at } => (id, number, Some(status), at, false, false),
            Submitted::Replayed { id, number, status, at } => (id, number, Some(status), at, true, false),
            Submitted::Pruned { id, number, status, at } => (id, number, status, at, true, true),
            Submitted::Conflict { key, .. } => return Err(key_conflict(&key)),
        };
        // The answer to a duplicate is the first one, if its run has ended; to callers who may read jobs. Another one may have
        // submitted it, and a key is easier to guess than a token.
        if replayed
            && known.0.scopes.allows(Scope::JobsRead)
            && status.is_some_and(JobStatus::is_terminal)
            && let Some((record, _)) = engine.ledger.find_job(tenant, job_id).await?
        {
            (result, error) = (record.result.map(Into::into), record.error);
        }
        let answer = SubmitAnswer {
            id: job_id,
            job_id,
            number,
            status: crate::jobs::pruned_word(status),
            queued_at,
            idempotency: IdempotencyView { key, replayed, pruned },
            result: raw(result.filter(|_| status == Some(JobStatus::Succeeded)).map(|text| text.to_string())),
            error,
            request_id: context.request_id,
            trace_id: context.trace_id,
        };
        Ok((StatusCode::ACCEPTED, Json(answer)))
    }
}
