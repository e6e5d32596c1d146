//! `GET /jobs/{id}/context`: what a run knows, now or after any of its steps.

use axum::Json;
use axum::extract::State;
use bowline_model::{JobId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actors::ActorView;
use crate::app::App;
use crate::door::Known;
use crate::params::{Named, Params};
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ContextQuery {
    /// As it was after this step; as it is now unless given.
    pub step: Option<u32>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ContextView {
    /// The step after which it was so.
    pub step: u32,
    /// Steps there are by now.
    pub steps: u32,
    /// webhook, user, execution, steps and variables, as expressions see them.
    pub context: Value,
    /// What the step changed.
    pub diff: Vec<ChangeView>,
    /// What people set by hand after the step, before the next one was over. Of a past step, the context does not know it.
    pub edits: Vec<EditView>,
    /// Where the run was then: node, visit, and what it waited for.
    pub places: Vec<Value>,
    /// How it was steered then: `stepping`, `halted`, `run_to`, `breakpoints`, `pins`; what is not so is left out.
    pub debug: Value,
}

/// Variables that somebody set by hand while the run stood after a step.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EditView {
    pub after_step: u32,
    pub by: String,
    /// The same, with the name.
    pub actor: ActorView,
    pub reason: Option<String>,
    pub at: Timestamp,
    pub changed: Vec<ChangeView>,
}

impl From<bowline_engine::flow::Edit> for EditView {
    fn from(edit: bowline_engine::flow::Edit) -> Self {
        let changed = edit.changed.into_iter().map(Into::into).collect();
        let actor = ActorView::unnamed(&edit.by);
        Self { after_step: edit.after_step, by: edit.by, actor, reason: edit.reason, at: edit.at, changed }
    }
}

/// Edits as they are shown, with the names of who made them.
pub(super) async fn edit_views(app: &App, edits: Vec<bowline_engine::flow::Edit>) -> Vec<EditView> {
    let mut views: Vec<EditView> = edits.into_iter().map(Into::into).collect();
    for view in &mut views {
        app.actors.fill(&mut view.actor).await;
    }
    views
}

/// One thing that a step or a person changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ChangeView {
    /// Such as `variables.total`.
    pub path: String,
    pub before: Value,
    pub after: Value,
}

impl From<bowline_engine::flow::Changed> for ChangeView {
    fn from(change: bowline_engine::flow::Changed) -> Self {
        Self { path: change.path, before: change.before, after: change.after }
    }
}

pub async fn context(
    State(app): State<App>,
    known: Known,
    Named(job): Named<JobId>,
    Params(query): Params<ContextQuery>,
) -> Result<Json<ContextView>, Problem> {
    let seen = app.engine.flows.context(known.tenant()?, job, query.step).await?;
    let mut debug = serde_json::to_value(&seen.debug).unwrap_or_default();
    if let Value::Object(fields) = &mut debug {
        // Which visits have stopped already, and whether a step is under way, is bookkeeping.
        fields.remove("passed");
        fields.remove("begun");
    }
    Ok(Json(ContextView {
        step: seen.step,
        steps: seen.steps,
        context: seen.context,
        diff: seen.diff.into_iter().map(Into::into).collect(),
        edits: edit_views(&app, seen.edits).await,
        places: seen.places,
        debug,
    }))
}
