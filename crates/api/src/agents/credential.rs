//! The credential of an agent: how long it is good for, and when it is renewed.

use bowline_auth::{Audiences, Scope, Scopes, TokenKind, TokenText};
use bowline_model::{TenantId, Timestamp, WorkerName};
use bowline_store::TokenRecord;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use rand::RngExt;

/// An agent's credential is good for this long.
const LIFE_MS: i64 = 366 * 24 * 60 * 60 * 1_000;
/// One that was renewed stays good for this long, in case the agent never heard of the new one.
pub const OVERLAP_MS: i64 = 24 * 60 * 60 * 1_000;
/// Agents renew after half of the life of their credential.
pub const RENEW_AFTER_S: u64 = (LIFE_MS / 2_000).cast_unsigned();

/// A new credential, and how it is kept.
pub fn mint(tenant: TenantId, name: &WorkerName, made_by: &str, now: Timestamp) -> (TokenText, TokenRecord) {
    let mut entropy = [0u8; bowline_auth::token::ENTROPY_BYTES];
    rand::rng().fill(&mut entropy);
    let token = TokenText::mint(TokenKind::Worker, entropy);
    let record = TokenRecord {
        id: token.id().to_string(),
        kind: TokenKind::Worker.to_string(),
        tenant: Some(tenant),
        name: name.to_string(),
        secret_hash: token.secret_hash(),
        scopes: Scopes::of(Scope::WorkersRun).to_string(),
        audiences: Audiences::ALL.to_string(),
        labels: Default::default(),
        admission: Default::default(),
        email: None,
        made_by: Some(made_by.to_owned()),
        person: None,
        created_at: now,
        expires_at: Some(now.plus_millis(LIFE_MS)),
        revoked_at: None,
        used_at: None,
    };
    (token, record)
}

/// In how many seconds a credential that ends then is to be renewed; 0 if that is due.
pub fn renew_after_s(expires_at: Option<Timestamp>, now: Timestamp) -> Option<u64> {
    let left_ms = expires_at?.millis_since(now);
    Some(u64::try_from((left_ms - LIFE_MS / 2) / 1_000).unwrap_or(0))
}

/// The text of the credential of a request that was let in; it is part of what agents sign.
pub fn shown(headers: &HeaderMap) -> &str {
    let text = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|text| text.split_once(' '));
    text.map_or("", |(_, secret)| secret.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_renewed_after_half_of_its_life() {
        let now = Timestamp::from_millis(1_000_000_000);
        let ends_in = |ms: i64| renew_after_s(Some(now.plus_millis(ms)), now);
        assert_eq!(ends_in(LIFE_MS), Some(RENEW_AFTER_S));
        assert_eq!(ends_in(LIFE_MS / 2 + 60_000), Some(60));
        assert_eq!(ends_in(LIFE_MS / 2 - 1), Some(0));
        assert_eq!(ends_in(1), Some(0));
        assert_eq!(renew_after_s(None, now), None, "it never ends");
    }
}
