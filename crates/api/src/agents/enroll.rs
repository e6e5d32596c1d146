//! `POST /agents/enroll`: an agent with a join token becomes one of ours.

use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_auth::Actor;
use bowline_engine::builtin::NAME_PREFIX;
use bowline_model::host::Pattern;
use bowline_protocol::{EnrollAnswer, EnrollRequest, enroll_message};
use bowline_store::{AgentRecord, Enrolled};
use hyper::{HeaderMap, StatusCode};
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::json;

use super::credential;
use crate::app::App;
use crate::body::Body;
use crate::door::Known;
use crate::problem::Problem;

pub async fn enroll(
    State(app): State<App>,
    known: Known,
    headers: HeaderMap,
    Body(body): Body<EnrollRequest>,
) -> Result<(StatusCode, Json<EnrollAnswer>), Problem> {
    let Actor::Join { token: join } = &known.0.actor else {
        return Err(Problem::forbidden("this needs a join token"));
    };
    let tenant = known.tenant()?;
    if body.name.as_str().starts_with(NAME_PREFIX) {
        return Err(Problem::validation(format!("names that begin with {NAME_PREFIX} belong to the server")));
    }
    let field = |name: &str, what: &str| Problem::validation(format!("{name}: {what}")).with(json!({"field": name}));
    let public_key: [u8; 32] = STANDARD
        .decode(&body.public_key)
        .ok()
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| field("public_key", "32 bytes in base64"))?;
    let signature = STANDARD.decode(&body.signature).map_err(|_| field("signature", "64 bytes in base64"))?;
    // The credential was checked before; its text is what was signed.
    let message = enroll_message(credential::shown(&headers), &body.name);
    UnparsedPublicKey::new(&ED25519, public_key)
        .verify(&message, &signature)
        .map_err(|_| field("signature", "it is not by this key"))?;
    let welcome = || Problem::unauthorized("the credential is missing, unknown, expired or revoked");
    let joined = app.engine.ledger.find_token(join.to_string()).await?.ok_or_else(welcome)?;
    if !Pattern::parse(&joined.name).is_ok_and(|pattern| pattern.matches(body.name.as_str())) {
        return Err(Problem::forbidden(format!(
            "this join token is for the agent {}, not for {}; make one for that name, or start the agent with --name",
            joined.name, body.name
        )));
    }
    let now = app.engine.clock.now();
    let (token, record) = credential::mint(tenant, &body.name, &join.to_string(), now);
    let agent = AgentRecord {
        tenant,
        name: body.name.clone(),
        public_key,
        sealing_key: None,
        labels: joined.labels.clone(),
        admission: joined.admission,
        token: record.id.clone(),
        token_before: None,
        enrolled_at: now,
    };
    let labels = joined.labels;
    match app.engine.ledger.enroll_agent(join.to_string(), agent, record, known.author()).await? {
        Enrolled::Done => {
            app.gate.forget(&join.to_string());
            let answer = EnrollAnswer { name: body.name, token: token.expose().to_owned(), labels };
            Ok((StatusCode::CREATED, Json(answer)))
        }
        Enrolled::NotWelcome => Err(welcome()),
        Enrolled::NameTaken => Err(Problem::conflict(
            "AGENT_EXISTS",
            "there is an agent of this name with another key, or a worker or worker token of this name",
        )),
        Enrolled::KeyTaken => Err(Problem::conflict("AGENT_KEY_EXISTS", "there is an agent with this key")),
    }
}
