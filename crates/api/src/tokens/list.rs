//! `GET /tokens`: tokens, without their secrets.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use bowline_auth::{Audience, Audiences, Scope};
use bowline_model::admission::Reach;
use bowline_model::{Labels, TenantId, Timestamp};
use bowline_store::TokenRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actors::ActorView;
use crate::app::App;
use crate::door::Known;
use crate::params::Params;
use crate::problem::Problem;

/// How the API calls a kind of token.
pub(super) fn kind_word(kind: &str) -> &'static str {
    match kind {
        "wrk" => "worker",
        "joi" => "join",
        _ => "api",
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct TokenView {
    pub id: String,
    pub kind: &'static str,
    pub name: String,
    pub scopes: Vec<String>,
    pub audiences: Vec<&'static str>,
    /// The id of the token it was made with; not there for those that a service or the server itself made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made_by: Option<String>,
    /// The same, with the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maker: Option<ActorView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    pub tenant_id: Option<TenantId>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// For a join token: when an agent enrolled with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_at: Option<Timestamp>,
    /// valid, used, revoked, expired.
    pub status: &'static str,
    /// For a join or worker's token: the labels the agent or worker gets.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// For a worker's token: labels that the worker states itself count as well.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub own_labels: bool,
    /// For a join token: hosts besides its own that the agent may reach.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub reach: BTreeSet<Reach>,
    /// For a join token: the agent gets sealed secrets even if its commands share its user.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub secrets_for_shared_user: bool,
    /// For a worker's token: the task types it may take; all that are neither built in nor reserved unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_types: Option<Vec<String>>,
}

fn status(token: &TokenRecord, now: Timestamp) -> &'static str {
    match token {
        TokenRecord { used_at: Some(_), .. } => "used",
        TokenRecord { revoked_at: Some(_), .. } => "revoked",
        TokenRecord { expires_at: Some(at), .. } if *at <= now => "expired",
        _ => "valid",
    }
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
    let now = app.engine.clock.now();
    let mut tokens: Vec<TokenView> = tokens
        .into_iter()
        .map(|t| TokenView {
            kind: kind_word(&t.kind),
            status: status(&t, now),
            audiences: Audiences::from(t.audiences.as_str()).iter().map(Audience::text).collect(),
            maker: t.made_by.as_deref().map(|id| ActorView::unnamed(&format!("token:{id}"))),
            made_by: t.made_by,
            labels: t.labels,
            own_labels: t.admission.own_labels,
            reach: t.admission.reach,
            secrets_for_shared_user: t.admission.secrets_for_shared_user,
            task_types: t.admission.task_types,
            used_at: t.used_at,
            id: t.id,
            name: t.name,
            scopes: t.scopes.split(' ').filter(|scope| !scope.is_empty()).map(str::to_owned).collect(),
            email: t.email,
            tenant_id: t.tenant,
            created_at: t.created_at,
            expires_at: t.expires_at,
            revoked_at: t.revoked_at,
        })
        .collect();
    for maker in tokens.iter_mut().filter_map(|token| token.maker.as_mut()) {
        app.actors.fill(maker).await;
    }
    Ok(Json(TokenList { tokens }))
}
