//! `POST /agents/enroll`: an agent with a join token becomes one of ours.

use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_auth::{Actor, Scope, Scopes, TokenKind, TokenText};
use bowline_engine::builtin::NAME_PREFIX;
use bowline_protocol::{EnrollAnswer, EnrollRequest, enroll_message};
use bowline_store::{AgentRecord, Enrolled, TokenRecord};
use hyper::header::AUTHORIZATION;
use hyper::{HeaderMap, StatusCode};
use rand::RngExt;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::json;

use crate::app::App;
use crate::body::Body;
use crate::door::Known;
use crate::problem::Problem;

/// An agent's own credential is good for this long; it enrolls anew afterwards.
const YEAR_MS: i64 = 366 * 24 * 60 * 60 * 1_000;

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
    // The door has checked the credential; what was signed is its text.
    let text = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|text| text.split_once(' '));
    let secret = text.map_or("", |(_, secret)| secret.trim());
    let message = enroll_message(secret, &body.name);
    UnparsedPublicKey::new(&ED25519, public_key)
        .verify(&message, &signature)
        .map_err(|_| field("signature", "it is not by this key"))?;
    let joined = app.engine.ledger.find_token(join.to_string()).await?;
    let labels = joined.map(|record| record.labels).unwrap_or_default();
    let now = app.engine.clock.now();
    let mut entropy = [0u8; bowline_auth::token::ENTROPY_BYTES];
    rand::rng().fill(&mut entropy);
    let token = TokenText::mint(TokenKind::Worker, entropy);
    let agent = AgentRecord {
        tenant,
        name: body.name.clone(),
        public_key,
        sealing_key: None,
        labels: labels.clone(),
        token: token.id().to_string(),
        enrolled_at: now,
    };
    let record = TokenRecord {
        id: token.id().to_string(),
        kind: TokenKind::Worker.to_string(),
        tenant: Some(tenant),
        name: body.name.to_string(),
        secret_hash: token.secret_hash(),
        scopes: Scopes::of(Scope::WorkersRun).to_string(),
        labels: Default::default(),
        email: None,
        made_by: Some(join.to_string()),
        person: None,
        created_at: now,
        expires_at: Some(now.plus_millis(YEAR_MS)),
        revoked_at: None,
    };
    match app.engine.ledger.enroll_agent(join.to_string(), agent, record, known.author()).await? {
        Enrolled::Done => {
            app.gate.forget(&join.to_string());
            let answer = EnrollAnswer { name: body.name, token: token.expose().to_owned(), labels };
            Ok((StatusCode::CREATED, Json(answer)))
        }
        Enrolled::NotWelcome => Err(Problem::unauthorized("the credential is missing, unknown, expired or revoked")),
        Enrolled::NameTaken => Err(Problem::conflict("AGENT_EXISTS", "there is an agent or worker of this name")),
        Enrolled::KeyTaken => Err(Problem::conflict("AGENT_KEY_EXISTS", "there is an agent with this key")),
    }
}
