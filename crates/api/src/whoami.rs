//! `GET /whoami`: who the caller is, and what they may do.

use axum::Json;
use schemars::JsonSchema;
use serde::Serialize;

use crate::door::Known;

#[derive(Debug, Serialize, JsonSchema)]
pub struct CallerView {
    pub actor: String,
    /// The caller's address, if the credential has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    pub tenant_id: Option<uuid::Uuid>,
    pub scopes: Vec<String>,
    pub audiences: Vec<&'static str>,
}

pub async fn show(known: Known) -> Json<CallerView> {
    let caller = &known.0;
    Json(CallerView {
        actor: caller.actor.to_string(),
        email: caller.email.as_ref().map(ToString::to_string),
        tenant_id: caller.tenant,
        scopes: caller.scopes.iter().map(|s| s.to_string()).collect(),
        audiences: caller.audiences.iter().map(bowline_auth::Audience::text).collect(),
    })
}
