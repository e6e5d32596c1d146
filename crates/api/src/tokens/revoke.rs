//! `POST /tokens/{id}/revoke`: make a token worthless, here at once and on other servers within seconds.

use axum::Json;
use axum::extract::State;
use bowline_auth::Scope;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::door::Known;
use crate::params::Part;
use crate::problem::Problem;

#[derive(Debug, Serialize, JsonSchema)]
pub struct RevokedView {
    pub id: String,
    pub revoked: bool,
}

pub async fn revoke(State(app): State<App>, known: Known, Part(id): Part) -> Result<Json<RevokedView>, Problem> {
    // An administrator may have made it for another tenant.
    let tenant = known.tenant()?;
    let whose = (!known.0.scopes.allows(Scope::Admin)).then_some(tenant);
    let short = id.len() <= 64;
    if !short || !app.engine.ledger.revoke_token(id.clone(), whose, known.author()).await? {
        return Err(Problem::not_found("TOKEN_NOT_FOUND", "token"));
    }
    app.gate.forget(&id);
    Ok(Json(RevokedView { id, revoked: true }))
}
