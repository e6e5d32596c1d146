//! `GET /jobs/{id}/steps`: what a run has done, step by step.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use bowline_engine::flow::{SkippedNode, StepInput};
use bowline_model::{JobId, RunError, Timestamp};
use bowline_workflow::flow::StepStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::context::{EditView, edit_views};
use crate::actors::ActorView;
use crate::app::App;
use crate::door::Known;
use crate::params::{Named, Params, page_size};
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StepsQuery {
    /// The number of the first step, from 1; `next` of the page before.
    pub from: Option<u32>,
    pub limit: Option<u32>,
}

/// A node that is over.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StepView {
    /// Its number in the run, from 1.
    pub n: u32,
    pub node: String,
    pub r#type: Option<String>,
    /// How often the run had come to this node.
    pub visit: u32,
    /// success or failed.
    pub status: Value,
    /// What the node received: what it handed on to the job it started (for `foreach` a list of these), what it waited for, or
    /// the values that its expressions name, by their paths. `null` if the output is pinned, or if the input is too large.
    pub input: Value,
    /// How large the input is as JSON, if it is too large to be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_bytes: Option<usize>,
    /// The nodes that led here: one, or as many as a `join` gathered. None for the first step, and where a run was retried or
    /// forked.
    pub previous: Vec<String>,
    /// The nodes that it led to. None where the path ends.
    pub next: Vec<String>,
    /// Which way it was left: `"success"`, `"failure"`, `{"port"}`, `{"to"}` or `{"end"}`.
    pub exit: Value,
    pub output: Value,
    /// Variables it set.
    pub set: BTreeMap<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    pub began_at: Timestamp,
    pub ended_at: Timestamp,
    /// own, or pinned if somebody said what the output is.
    pub origin: Value,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct StepList {
    /// In the order in which they ended.
    pub steps: Vec<StepView>,
    /// What people set by hand after these steps, and before the first of all.
    pub edits: Vec<EditView>,
    /// The number of the first step of the next page.
    pub next: Option<u32>,
    /// Nodes that an execution that has ended never came to, at most 1,000 of them; only with the last page.
    pub skipped: Vec<SkippedView>,
    /// How many nodes it never came to.
    pub skipped_count: usize,
    /// Who started the execution.
    pub created_by: ActorView,
}

/// A node that an execution never came to.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SkippedView {
    pub node: String,
    pub r#type: Option<String>,
    /// skipped.
    pub status: &'static str,
}

impl From<SkippedNode> for SkippedView {
    fn from(skipped: SkippedNode) -> Self {
        Self { node: skipped.node, r#type: skipped.node_type, status: "skipped" }
    }
}

impl From<bowline_engine::flow::StepView> for StepView {
    fn from(view: bowline_engine::flow::StepView) -> Self {
        let word = |value: serde_json::Result<Value>| value.unwrap_or_default();
        let step = view.step;
        let (input, input_bytes) = match view.input {
            StepInput::Value(input) => (input, None),
            StepInput::TooLarge(bytes) => (Value::Null, Some(bytes)),
        };
        Self {
            input,
            input_bytes,
            previous: view.previous,
            next: view.next,
            n: step.n,
            node: step.node.to_string(),
            r#type: view.node_type,
            visit: step.visit,
            status: word(serde_json::to_value(step.status)),
            exit: match step.status {
                StepStatus::Failed => "failure".into(),
                StepStatus::Success => word(serde_json::to_value(&step.exit)),
            },
            output: step.output,
            set: step.set.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
            error: step.error,
            began_at: step.began_at,
            ended_at: step.ended_at,
            origin: word(serde_json::to_value(step.origin)),
        }
    }
}

pub async fn steps(
    State(app): State<App>,
    known: Known,
    Named(job): Named<JobId>,
    Params(query): Params<StepsQuery>,
) -> Result<Json<StepList>, Problem> {
    let limit = page_size(query.limit, &app)?;
    let page = app.engine.flows.steps(known.tenant()?, job, query.from.unwrap_or(1), limit).await?;
    Ok(Json(StepList {
        steps: page.steps.into_iter().map(Into::into).collect(),
        edits: edit_views(&app, page.edits).await,
        next: page.next,
        skipped: page.skipped.into_iter().map(Into::into).collect(),
        skipped_count: page.skipped_count,
        created_by: app.actors.view(&page.actor).await,
    }))
}
