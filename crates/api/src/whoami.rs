//! `GET /whoami`: who the caller is, and what they may do.

use axum::Json;
use axum::extract::State;
use bowline_model::TenantId;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::door::Known;
use crate::problem::Problem;

#[derive(Debug, Serialize, JsonSchema)]
pub struct CallerView {
    pub actor: String,
    /// The name of the token, the subject of the service or the name of the worker.
    pub name: String,
    /// The caller's address, if the credential has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    pub tenant_id: Option<uuid::Uuid>,
    /// The name of the tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    pub scopes: Vec<String>,
    pub audiences: Vec<&'static str>,
}

pub async fn show(State(app): State<App>, known: Known) -> Result<Json<CallerView>, Problem> {
    let caller = &known.0;
    let actor = caller.actor.to_string();
    let name = app.actors.view(&actor).await.name;
    let tenant = match caller.tenant {
        Some(id) => app.engine.ledger.find_tenant(TenantId::from_uuid(id)).await?.map(|tenant| tenant.name),
        None => None,
    };
    Ok(Json(CallerView {
        actor,
        name,
        tenant,
        email: caller.email.as_ref().map(ToString::to_string),
        tenant_id: caller.tenant,
        scopes: caller.scopes.iter().map(|s| s.to_string()).collect(),
        audiences: caller.audiences.iter().map(bowline_auth::Audience::text).collect(),
    }))
}
