//! `POST /tokens/{id}/revoke`: end a token and those made with it, here at once and on other servers within seconds.

use axum::Json;
use axum::extract::State;
use bowline_auth::Scope;
use bowline_model::ResourceName;
use bowline_model::resource::ResourceKind;
use bowline_store::{OwnedResource, RevokeToken, TokenRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list::kind_word;
use crate::app::App;
use crate::door::Known;
use crate::params::{Params, Part};
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RevokeQuery {
    /// End workers, agents and join tokens that were made with it, too.
    pub with_workers: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct RevokedView {
    pub id: String,
    pub revoked: bool,
    /// Tokens that ended with it, because they were made with it.
    pub also_revoked: Vec<MadeView>,
    /// Workers, agents and join tokens that were made with it and go on; `with_workers` ends them.
    pub remaining: Vec<MadeView>,
    /// Schedules and triggers that start nothing from now on, because they act with the rights of one of these tokens. Whoever
    /// applies one again takes it over.
    pub stopped: Vec<StoppedView>,
}

/// A schedule or trigger whose owner is revoked.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "StoppedResource")]
pub struct StoppedView {
    pub kind: ResourceKind,
    pub name: ResourceName,
}

impl From<OwnedResource> for StoppedView {
    fn from(owned: OwnedResource) -> Self {
        Self { kind: owned.kind, name: owned.name }
    }
}

/// A token that was made with another one.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MadeView {
    pub id: String,
    pub kind: &'static str,
    pub name: String,
}

impl From<TokenRecord> for MadeView {
    fn from(token: TokenRecord) -> Self {
        Self { kind: kind_word(&token.kind), id: token.id, name: token.name }
    }
}

pub async fn revoke(
    State(app): State<App>,
    known: Known,
    Part(id): Part,
    Params(query): Params<RevokeQuery>,
) -> Result<Json<RevokedView>, Problem> {
    // An administrator may have made it for another tenant.
    let own = known.tenant()?;
    let tenant = (!known.0.scopes.allows(Scope::Admin)).then_some(own);
    let not_found = || Problem::not_found("TOKEN_NOT_FOUND", "token");
    if id.len() > 64 {
        return Err(not_found());
    }
    let order = RevokeToken { id: id.clone(), tenant, with_workers: query.with_workers };
    let revoked = app.engine.ledger.revoke_token(order, known.author()).await?.ok_or_else(not_found)?;
    app.gate.forget(&id);
    revoked.also.iter().for_each(|token| app.gate.forget(&token.id));
    let show = |tokens: Vec<TokenRecord>| tokens.into_iter().map(MadeView::from).collect();
    let ended = std::iter::once(&revoked.token).chain(&revoked.also);
    let owners = ended.map(|token| format!("token:{}", token.id)).collect();
    let stopped = app.engine.ledger.list_owned(owners).await?;
    Ok(Json(RevokedView {
        id,
        revoked: true,
        also_revoked: show(revoked.also),
        remaining: show(revoked.remaining),
        stopped: stopped.into_iter().map(Into::into).collect(),
    }))
}
