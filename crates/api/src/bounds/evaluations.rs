//! `/evaluations`: those that ended the server twice and are set aside, and the way back.

use axum::Json;
use axum::extract::State;
use bowline_model::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::body::Body;
use crate::door::Known;
use crate::problem::Problem;

#[derive(Debug, Serialize, JsonSchema)]
pub struct EvaluationView {
    /// What is not evaluated: `schema/…` (parameters of a command), `schedule/NAME@VERSION`, `execution/NUMBER`.
    pub subject: String,
    pub set_aside_at: Timestamp,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct EvaluationList {
    pub set_aside: Vec<EvaluationView>,
}

pub async fn evaluations(State(app): State<App>, known: Known) -> Result<Json<EvaluationList>, Problem> {
    let found = app.engine.ledger.list_set_aside(Some(known.tenant()?)).await?;
    let view =
        |record: bowline_store::SetAsideRecord| EvaluationView { subject: record.subject, set_aside_at: record.at };
    Ok(Json(EvaluationList { set_aside: found.into_iter().map(view).collect() }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    /// As the list shows it.
    pub subject: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ResumedView {
    pub subject: String,
    pub resumed: bool,
}

pub async fn resume(
    State(app): State<App>,
    known: Known,
    Body(body): Body<ResumeRequest>,
) -> Result<Json<ResumedView>, Problem> {
    let tenant = known.tenant()?;
    if !app.engine.ledger.resume_evaluation(tenant, body.subject.clone(), known.author()).await? {
        return Err(Problem::not_found("EVALUATION_NOT_FOUND", "evaluation that is set aside under this subject"));
    }
    app.engine.refresh_set_aside().await?;
    Ok(Json(ResumedView { subject: body.subject, resumed: true }))
}
