//! The part of `POST /jobs` that asks for a command on hosts.

use axum::Json;
use bowline_auth::Scope;
use bowline_engine::command_request;
use bowline_engine::fleet::{CommandChoice, CommandRequest};
use bowline_model::Timestamp;
use bowline_model::resource::ResourceKind;
use bowline_model::start::{CommandField, CommandStart};
use bowline_store::{Origin, Submitted};
use hyper::StatusCode;

use crate::app::App;
use crate::context::Context;
use crate::door::Known;
use crate::jobs::{IdempotencyView, SubmitAnswer, misfit};
use crate::problem::Problem;
use crate::versions::active_only;
use crate::views::job_word;

/// Everything about a command that `POST /jobs` can say.
#[derive(Debug)]
pub struct CommandWish {
    pub start: CommandStart,
    pub run_at: Option<Timestamp>,
    pub idempotency_key: Option<String>,
    pub external_id: Option<String>,
}

impl CommandWish {
    fn request(self, known: &Known) -> Result<CommandRequest, Problem> {
        if matches!(self.start.command, CommandField::Inline(_)) {
            // Whoever may only run what others have written cannot write it into the wish.
            known.require(Scope::FleetWrite)?;
        }
        self.start.check_choice().map_err(misfit)?;
        let CommandWish { start, run_at, idempotency_key, external_id } = self;
        Ok(CommandRequest { run_at, idempotency_key, external_id, ..command_request(start) })
    }

    /// Stores the wish; answers with the job.
    pub async fn store(self, app: &App, known: &Known, context: &Context) -> Result<Submitted, Problem> {
        let tenant = known.tenant()?;
        let request = self.request(known)?;
        if let CommandChoice::Named { name, version: Some(version) } = &request.command
            && let Err(problem) = active_only(app, known, ResourceKind::Command, name.clone(), *version).await
        {
            return app.engine.commands.find_sent(tenant, &request).await?.ok_or(problem);
        }
        let author = Some(std::sync::Arc::new(known.author()));
        let (engine, origin) = (&app.engine, Origin { author, ..context.origin(&known.0) });
        let stored = engine.commands.submit(&engine.intake, &engine.inventories, tenant, &origin, request).await?;
        Ok(stored)
    }
}

pub async fn submit(
    app: &App,
    known: &Known,
    context: Context,
    wish: CommandWish,
) -> Result<(StatusCode, Json<SubmitAnswer>), Problem> {
    let key = wish.idempotency_key.clone();
    let (job_id, number, status, queued_at, replayed, pruned) = match wish.store(app, known, &context).await? {
        Submitted::Accepted { id, number, status, at } => (id, number, job_word(status), at, false, false),
        Submitted::Replayed { id, number, status, at } => (id, number, job_word(status), at, true, false),
        Submitted::Pruned { id, number, status, at } => (id, number, crate::jobs::pruned_word(status), at, true, true),
        Submitted::Conflict { key, .. } => return Err(crate::jobs::key_conflict(&key)),
    };
    let answer = SubmitAnswer {
        id: job_id,
        job_id,
        number,
        status,
        queued_at,
        idempotency: IdempotencyView { key, replayed, pruned },
        result: None,
        error: None,
        request_id: context.request_id,
        trace_id: context.trace_id,
    };
    Ok((StatusCode::ACCEPTED, Json(answer)))
}
