//! `POST /tokens/{id}/revoke`: make a token worthless, here at once and on other servers within seconds.

use axum::Json;
use axum::extract::State;
use bowline_model::EventKind;
use bowline_model::event::EventData;
use bowline_store::Notice;
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
    let tenant = known.tenant()?;
    let short = id.len() <= 64;
    if !short || !app.engine.ledger.revoke_token(id.clone(), Some(tenant)).await? {
        return Err(Problem::not_found("TOKEN_NOT_FOUND", "token"));
    }
    app.gate.forget(&id);
    let data = EventData { by: Some(known.actor()), reason: Some(format!("token {id}")), ..EventData::default() };
    app.engine.ledger.note(Notice { tenant, kind: EventKind::TokenRevoked, data }).await?;
    Ok(Json(RevokedView { id, revoked: true }))
}
