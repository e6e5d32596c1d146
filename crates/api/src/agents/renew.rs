//! `POST /agents/renew`: an agent gets a new credential well before its own ends, with the key it enrolled with.

use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_auth::Actor;
use bowline_protocol::{RenewAnswer, RenewRequest, renew_message};
use hyper::HeaderMap;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::json;

use super::credential::{self, OVERLAP_MS};
use crate::app::App;
use crate::body::Body;
use crate::door::Known;
use crate::problem::Problem;

pub async fn renew(
    State(app): State<App>,
    known: Known,
    headers: HeaderMap,
    Body(body): Body<RenewRequest>,
) -> Result<Json<RenewAnswer>, Problem> {
    let tenant = known.tenant()?;
    let name = known.own_worker()?;
    let Actor::Worker { token: used, .. } = &known.0.actor else {
        return Err(Problem::forbidden("this needs an agent's credential"));
    };
    let used = used.to_string();
    let no_agent = || Problem::forbidden("only an agent renews its credential; make a new token for a worker");
    let agent = app.engine.ledger.find_agent(tenant, name.clone()).await?;
    let agent = agent.filter(|agent| agent.has_credential(&used)).ok_or_else(no_agent)?;
    let field = |what: &str| Problem::validation(format!("signature: {what}")).with(json!({"field": "signature"}));
    let signature = STANDARD.decode(&body.signature).map_err(|_| field("64 bytes in base64"))?;
    UnparsedPublicKey::new(&ED25519, agent.public_key)
        .verify(&renew_message(credential::shown(&headers), &name), &signature)
        .map_err(|_| field("it is not by the key the agent enrolled with"))?;
    let (token, record) = credential::mint(tenant, &name, &used, app.engine.clock.now());
    if !app.engine.ledger.renew_agent(tenant, name.clone(), used.clone(), record, OVERLAP_MS, known.author()).await? {
        return Err(no_agent());
    }
    app.gate.forget(&used);
    Ok(Json(RenewAnswer { name, token: token.expose().to_owned(), renew_after_s: credential::RENEW_AFTER_S }))
}
