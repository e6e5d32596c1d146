//! `POST /jobs/{id}/shadow`: a run once more with the answers it got, and what would be different. Nothing is called, nobody
//! is asked, nothing is stored.

use axum::Json;
use axum::extract::State;
use bowline_model::JobId;
use bowline_model::workflow::WorkflowSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::problem::definition;
use crate::app::App;
use crate::body::MaybeBody;
use crate::door::Known;
use crate::params::Named;
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShadowRequest {
    /// Another definition; the run's own unless given.
    #[schemars(with = "Option<WorkflowSpec>")]
    pub definition: Option<Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ShadowView {
    /// Steps of the run that were compared.
    pub steps: u32,
    /// The first thousand, each with its `kind`: step, asks, only_recorded, only_shadow, no_answer, goes_on or ending.
    pub differences: Vec<Value>,
    /// How many there are besides.
    pub unlisted: u64,
}

pub async fn shadow(
    State(app): State<App>,
    known: Known,
    Named(job): Named<JobId>,
    MaybeBody(body): MaybeBody<ShadowRequest>,
) -> Result<Json<ShadowView>, Problem> {
    let other = match body.definition {
        None => None,
        Some(value) => Some(definition(known.tenant()?, value).await?),
    };
    let seen = app.engine.flows.shadow(known.tenant()?, job, other.as_ref()).await?;
    let listed = seen.differences.listed.iter();
    let differences = listed.map(|difference| serde_json::to_value(difference).unwrap_or_default()).collect();
    Ok(Json(ShadowView { steps: seen.steps, differences, unlisted: seen.differences.unlisted as u64 }))
}
