//! `GET /jobs/{id}/graph`: a picture of a run, or what such a picture is made of.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bowline_model::JobId;
use bowline_workflow::draw::{NodeStatus, mermaid, svg};
use hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::door::Known;
use crate::params::{Named, Params};
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GraphQuery {
    pub format: GraphFormat,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GraphFormat {
    /// Text that many editors and forges draw.
    #[default]
    Mermaid,
    /// A picture for browsers.
    Svg,
    /// The definition, and how each node stands: done, failed, waiting or current.
    Json,
}

pub async fn graph(
    State(app): State<App>,
    known: Known,
    Named(job): Named<JobId>,
    Params(query): Params<GraphQuery>,
) -> Result<Response, Problem> {
    let picture = app.engine.flows.picture(known.tenant()?, job).await?;
    let text = |kind: &'static str, text: String| {
        // A picture that somebody else has named the nodes of has nothing to load and nothing to run.
        let policy = "default-src 'none'; style-src 'unsafe-inline'; sandbox";
        ([(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, policy)], text).into_response()
    };
    Ok(match query.format {
        GraphFormat::Mermaid => text("text/plain; charset=utf-8", mermaid(&picture.spec, &picture.statuses)),
        GraphFormat::Svg => text("image/svg+xml", svg(&picture.spec, &picture.statuses)),
        GraphFormat::Json => {
            let word = |status: &NodeStatus| match status {
                NodeStatus::Done => "done",
                NodeStatus::Failed => "failed",
                NodeStatus::Waiting => "waiting",
                NodeStatus::Current => "current",
            };
            let nodes: Map<String, Value> =
                picture.statuses.iter().map(|(node, status)| (node.to_string(), word(status).into())).collect();
            Json(json!({"definition": picture.spec, "nodes": nodes})).into_response()
        }
    })
}
