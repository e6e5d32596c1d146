//! `POST /tokens`: make a token. Its secret is shown once and kept as a hash.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use bowline_auth::{Audience, Audiences, Email, Scope, Scopes, TokenKind, TokenText};
use bowline_engine::builtin::NAME_PREFIX;
use bowline_model::admission::{Admission, Reach};
use bowline_model::host::Pattern;
use bowline_model::{Labels, TenantId, Timestamp, WorkerName};
use bowline_store::TokenRecord;
use hyper::StatusCode;
use rand::RngExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::App;
use crate::body::Body;
use crate::door::Known;
use crate::problem::Problem;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KindWord {
    Api,
    Worker,
    /// For an agent that joins with it, once.
    Join,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AudienceWord {
    Exec,
    Control,
}

impl From<AudienceWord> for Audience {
    fn from(word: AudienceWord) -> Self {
        match word {
            AudienceWord::Exec => Self::Exec,
            AudienceWord::Control => Self::Control,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateRequest {
    pub kind: KindWord,
    /// For a worker's token: the worker's id. For a join token: the agent that may enroll with it, or a pattern such as
    /// `web-*`, or `*` for any.
    pub name: String,
    /// What it may do; an API token may read and write jobs unless given, a worker's token may only work.
    #[serde(default)]
    pub scopes: Option<Vec<String>>,
    /// A year at most, 90 days unless given; for a join token a week at most, 15 minutes unless given. An API token ends no
    /// later than the credential it is made with.
    #[serde(default)]
    #[schemars(range(min = 1, max = 31_622_400))]
    pub expires_in_s: Option<u64>,
    /// For a join or worker's token: labels the agent or worker gets.
    #[serde(default)]
    pub labels: Labels,
    /// For a worker's token: labels that the worker states itself count as well.
    #[serde(default)]
    pub own_labels: bool,
    /// For a join token: hosts besides its own that the agent may reach.
    #[serde(default)]
    pub reach: BTreeSet<Reach>,
    /// For a join token: the agent gets sealed secrets even if its commands share its user.
    #[serde(default)]
    pub secrets_for_shared_user: bool,
    /// For a worker's token: the task types it may take, as names or patterns such as `gpu.*`. All unless given; built-in and
    /// reserved types never.
    #[serde(default)]
    pub task_types: Option<Vec<String>>,
    /// For an API token: what it is good for. As the caller's own credential unless given, and never more than that.
    #[serde(default)]
    pub audiences: Option<Vec<AudienceWord>>,
    /// Whose token it is, for an API token: the caller's own address unless given. Only administrators give another one. What
    /// is started with the token knows the address, a workflow as `user.email`.
    #[serde(default)]
    pub email: Option<String>,
    /// Another tenant than the caller's own; for administrators.
    #[serde(default)]
    pub tenant_id: Option<TenantId>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct CreatedView {
    pub id: String,
    pub kind: KindWord,
    pub name: String,
    pub scopes: Vec<String>,
    pub audiences: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    pub tenant_id: TenantId,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    /// Shown this once.
    pub token: String,
}

const YEAR_S: u64 = 366 * 24 * 60 * 60;
const DEFAULT_S: u64 = 90 * 24 * 60 * 60;
/// A join token is used soon or never.
const JOIN_S: u64 = 15 * 60;
const JOIN_MAX_S: u64 = 7 * 24 * 60 * 60;

fn field(name: &str, what: impl std::fmt::Display) -> Problem {
    Problem::validation(format!("{name}: {what}")).with(json!({"field": name}))
}

/// What the bearer of the token may be, as far as that kind of token says it.
fn admission(body: &CreateRequest) -> Result<Admission, Problem> {
    if !body.reach.is_empty() && body.kind != KindWord::Join {
        return Err(field("reach", "only a join token has it"));
    }
    if body.secrets_for_shared_user && body.kind != KindWord::Join {
        return Err(field("secrets_for_shared_user", "only a join token has it"));
    }
    if body.own_labels && body.kind != KindWord::Worker {
        return Err(field("own_labels", "only a worker's token has it"));
    }
    if let Some(patterns) = &body.task_types {
        if body.kind != KindWord::Worker {
            return Err(field("task_types", "only a worker's token has them"));
        }
        if patterns.is_empty() || patterns.len() > Admission::PATTERNS_MAX {
            return Err(field("task_types", format!("name between 1 and {} of them", Admission::PATTERNS_MAX)));
        }
    }
    let admission = Admission {
        reach: body.reach.clone(),
        task_types: body.task_types.clone(),
        own_labels: body.own_labels,
        secrets_for_shared_user: body.secrets_for_shared_user,
    };
    admission.check().map_err(|(pattern, why)| field("task_types", format!("{pattern:?}: {why}")))?;
    Ok(admission)
}

pub async fn create(
    State(app): State<App>,
    known: Known,
    Body(body): Body<CreateRequest>,
) -> Result<(StatusCode, Json<CreatedView>), Problem> {
    let own = known.tenant()?;
    let tenant = body.tenant_id.unwrap_or(own);
    let admin = known.0.scopes.allows(Scope::Admin);
    if tenant != own && !admin {
        return Err(Problem::not_found("TENANT_NOT_FOUND", "tenant"));
    }
    if tenant != own && app.engine.ledger.find_tenant(tenant).await?.is_none() {
        return Err(Problem::not_found("TENANT_NOT_FOUND", "tenant"));
    }
    if body.kind == KindWord::Join {
        Pattern::parse(&body.name).map_err(|e| field("name", e.to_string()))?;
    } else {
        WorkerName::new(&body.name).map_err(|e| Problem::validation(format!("name: {e}")))?;
    }
    if body.name.starts_with(NAME_PREFIX) {
        return Err(Problem::validation(format!("names that begin with {NAME_PREFIX} belong to the server")));
    }
    let scopes = match (&body.scopes, body.kind) {
        (None, KindWord::Worker) => Scopes::of(Scope::WorkersRun),
        (None, KindWord::Api) => Scopes::of(Scope::JobsRead).with(Scope::JobsWrite).with(Scope::EventsRead),
        (Some(list), KindWord::Api) => Scopes::parse(list.iter().map(String::as_str)).map_err(Problem::validation)?,
        (None, KindWord::Join) => Scopes::EMPTY,
        (Some(_), KindWord::Worker | KindWord::Join) => {
            return Err(Problem::validation("a worker's or join token may only work; leave scopes out"));
        }
    };
    if scopes.is_empty() && body.kind != KindWord::Join {
        return Err(Problem::validation("a token needs at least one scope"));
    }
    if !body.labels.is_empty() && body.kind == KindWord::Api {
        return Err(Problem::validation("labels: only a join or worker's token has them"));
    }
    if let Some(text) = &body.email {
        text.parse::<Email>().map_err(|e| Problem::validation(format!("email: {e}")))?;
        if body.kind != KindWord::Api {
            return Err(Problem::validation("email: only an API token has one"));
        }
    }
    let email = email_of(&known, &body)?;
    if let Some((key, _)) = body.labels.iter().find(|(key, _)| key.starts_with("bowline/")) {
        return Err(Problem::validation(format!("labels: {key} is given by the server")));
    }
    let admission = admission(&body)?;
    // Whoever lets agents in must be able to do what agents do.
    let granted = if body.kind == KindWord::Join { Scopes::of(Scope::WorkersRun) } else { scopes };
    known.0.require_grant(granted).map_err(Problem::forbidden)?;
    let (longest, usual) = if body.kind == KindWord::Join { (JOIN_MAX_S, JOIN_S) } else { (YEAR_S, DEFAULT_S) };
    let seconds = body.expires_in_s.unwrap_or(usual);
    if seconds == 0 || seconds > longest {
        return Err(Problem::validation(format!("expires_in_s must be between 1 and {longest}")));
    }
    let audiences = audiences(&known, &body)?;
    let now = app.engine.clock.now();
    // Workers, agents and join tokens outlive their maker: the work goes on when somebody leaves.
    let left_ms = app.gate.left_ms(&known.0).filter(|_| body.kind == KindWord::Api);
    let lasts_ms = lasts_ms(seconds, body.expires_in_s.is_some(), left_ms)?;
    let expires_at = now.plus_millis(lasts_ms);
    let kind = match body.kind {
        KindWord::Api => TokenKind::Api,
        KindWord::Worker => TokenKind::Worker,
        KindWord::Join => TokenKind::Join,
    };
    let mut entropy = [0u8; bowline_auth::token::ENTROPY_BYTES];
    rand::rng().fill(&mut entropy);
    let token = TokenText::mint(kind, entropy);
    let record = TokenRecord {
        id: token.id().to_string(),
        kind: kind.to_string(),
        tenant: Some(tenant),
        name: body.name.clone(),
        secret_hash: token.secret_hash(),
        scopes: scopes.to_string(),
        audiences: audiences.to_string(),
        labels: body.labels,
        admission,
        made_by: known.0.actor.token().map(ToString::to_string),
        person: Some(known.0.person_of_made(email.as_deref())),
        email: email.clone(),
        created_at: now,
        expires_at: Some(expires_at),
        revoked_at: None,
        used_at: None,
    };
    if !app.engine.ledger.create_token(record, known.author()).await? {
        // A worker's name may be an agent's. Otherwise it is the maker, for ids do not meet: revoked a moment ago, which this
        // server had not heard.
        app.gate.forget(&known.0.actor.token().map(ToString::to_string).unwrap_or_default());
        if !app.gate.still_good(&known.0).await {
            return Err(Problem::unauthorized("the credential is missing, unknown, expired or revoked"));
        }
        let taken = format!("name: there is an agent {}; a worker needs another name", body.name);
        return Err(Problem::conflict("AGENT_EXISTS", taken));
    }
    let view = CreatedView {
        id: token.id().to_string(),
        kind: body.kind,
        name: body.name,
        scopes: scopes.iter().map(|s| s.to_string()).collect(),
        audiences: audiences.iter().map(Audience::text).collect(),
        email,
        tenant_id: tenant,
        created_at: now,
        expires_at,
        token: token.expose().to_owned(),
    };
    Ok((StatusCode::CREATED, Json(view)))
}

/// How long the new token is good: as asked for, but no longer than its maker's credential, which is still good for `left_ms`.
/// Both are spans, as that credential may end by another clock than the token.
fn lasts_ms(seconds: u64, was_asked: bool, left_ms: Option<i64>) -> Result<i64, Problem> {
    let wanted_ms = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000);
    match left_ms {
        Some(left_ms) if left_ms < wanted_ms => {
            if was_asked || left_ms <= 0 {
                let left = left_ms.max(0) / 1_000;
                return Err(Problem::validation(format!(
                    "expires_in_s: a token ends no later than the credential it is made with, which is good for {left} more seconds"
                )));
            }
            Ok(left_ms)
        }
        _ => Ok(wanted_ms),
    }
}

/// Whose the new token is. An address says as which person a token counts, so only administrators give one that is not their own.
fn email_of(known: &Known, body: &CreateRequest) -> Result<Option<String>, Problem> {
    let own = known.0.email.as_ref().map(Email::as_str);
    match body.email.as_deref() {
        _ if body.kind != KindWord::Api => Ok(None),
        None => Ok(own.map(str::to_owned)),
        Some(given) => {
            let same = own.is_some_and(|own| own.to_lowercase() == given.to_lowercase());
            if !same && !known.0.scopes.allows(Scope::Admin) {
                let own = own.map_or_else(|| "it has none".to_owned(), |own| format!("it has {own}"));
                return Err(Problem::forbidden(format!(
                    "email: only an administrator makes tokens with another address than that of their own credential; {own}"
                )));
            }
            Ok(Some(given.to_owned()))
        }
    }
}

/// What the new token is good for. Workers are what they are; an API token is good for no more than its maker's credential.
fn audiences(known: &Known, body: &CreateRequest) -> Result<Audiences, Problem> {
    if body.kind != KindWord::Api {
        return match &body.audiences {
            None => Ok(Audiences::ALL),
            Some(_) => Err(Problem::validation("audiences: only an API token has them")),
        };
    }
    let Some(words) = &body.audiences else { return Ok(known.0.audiences) };
    let audiences: Audiences = words.iter().copied().map(Audience::from).collect();
    if audiences.is_empty() {
        return Err(Problem::validation("audiences: name exec, control, or both; or leave it out"));
    }
    known.0.require_audiences(audiences).map_err(Problem::forbidden)?;
    Ok(audiences)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_no_longer_than_what_is_left_of_its_makers_credential() {
        let lasts = |seconds, was_asked, left_ms| lasts_ms(seconds, was_asked, left_ms).ok();
        assert_eq!(lasts(60, false, None), Some(60_000));
        assert_eq!(lasts(60, true, Some(60_000)), Some(60_000));
        assert_eq!(lasts(60, false, Some(59_999)), Some(59_999));
        assert_eq!(lasts(60, true, Some(59_999)), None, "asked for more than there is");
        assert_eq!(lasts(60, false, Some(0)), None);
    }
}
