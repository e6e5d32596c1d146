//! `GET /tokens`: tokens, without their secrets.

use axum::Json;
use axum::extract::State;
use bowline_auth::Scope;
use bowline_model::{TenantId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::door::Known;
use crate::params::Params;
use crate::problem::Problem;

#[derive(Debug, Serialize, JsonSchema)]
pub struct TokenView {
    pub id: String,
    pub kind: &'static str,
    pub name: String,
    pub scopes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    pub tenant_id: Option<TenantId>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct TokenList {
    pub tokens: Vec<TokenView>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ListQuery {
    /// Another tenant than the caller's own; for administrators.
    pub tenant_id: Option<TenantId>,
}

pub async fn list(
    State(app): State<App>,
    known: Known,
    Params(query): Params<ListQuery>,
) -> Result<Json<TokenList>, Problem> {
    let own = known.tenant()?;
    let tenant = query.tenant_id.unwrap_or(own);
    if tenant != own && !known.0.scopes.allows(Scope::Admin) {
        return Err(Problem::not_found("TENANT_NOT_FOUND", "tenant"));
    }
    let tokens = app.engine.ledger.list_tokens(Some(tenant)).await?;
    let tokens = tokens
        .into_iter()
        .map(|t| TokenView {
            kind: if t.kind == "wrk" { "worker" } else { "api" },
            id: t.id,
            name: t.name,
            scopes: t.scopes.split(' ').map(str::to_owned).collect(),
            email: t.email,
            tenant_id: t.tenant,
            created_at: t.created_at,
            expires_at: t.expires_at,
            revoked_at: t.revoked_at,
        })
        .collect();
    Ok(Json(TokenList { tokens }))
}
