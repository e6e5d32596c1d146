//! The second part of a JWT: what a signature we trust says about its bearer.
//!
//! Enters: the claims as JSON, after the signature was checked, and the time it is now.
//! Leaves: a [`ServiceIdentity`]. Every claim is either well formed or refused; none is guessed or trimmed.

use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::config::JwtConfig;
use super::error::JwtError;
use crate::audience::{Audience, Audiences};
use crate::email::Email;
use crate::scope::Scopes;

/// How far our clock and the issuer's may differ. 30 s are accepted, 31 s are not.
pub const LEEWAY_S: i64 = 30;

/// Subjects and token ids are kept and logged, so they are short and printable.
const NAME_BYTES_MAX: usize = 256;

/// The end of the year 9999, in Unix seconds. No honest token speaks of later.
const TIME_MAX_S: i64 = 253_402_300_799;

/// A service whose JWT was believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceIdentity {
    pub subject: String,
    /// The doors the token was made for; never empty.
    pub audiences: Audiences,
    pub scopes: Scopes,
    pub tenant: Option<Uuid>,
    pub jti: Option<String>,
    pub email: Option<Email>,
    /// `iat`, in Unix seconds; the earliest it can be, if the token does not say.
    pub issued_at: i64,
    /// `exp`, in Unix seconds. The token is accepted until [`LEEWAY_S`] later.
    pub expires_at: i64,
}

/// What the claims are measured against.
#[derive(Debug)]
pub(super) struct Expected {
    issuer: String,
    audience_control: String,
    audience_exec: String,
    lifetime_max_s: i64,
}

impl From<&JwtConfig> for Expected {
    fn from(config: &JwtConfig) -> Self {
        Self {
            issuer: config.issuer.clone(),
            audience_control: config.audience_control.clone(),
            audience_exec: config.audience_exec.clone(),
            lifetime_max_s: config.lifetime_max_s,
        }
    }
}

/// Each claim as it came, so that a wrong type is reported by name. `null` counts as absent, a duplicate is refused.
#[derive(Deserialize)]
struct Claims {
    iss: Option<Value>,
    aud: Option<Value>,
    exp: Option<Value>,
    nbf: Option<Value>,
    iat: Option<Value>,
    sub: Option<Value>,
    jti: Option<Value>,
    scopes: Option<Value>,
    scope: Option<Value>,
    tid: Option<Value>,
    email: Option<Value>,
}

/// Reads the claims of a token whose signature is good.
pub(super) fn identify(json: &[u8], expected: &Expected, now_unix_s: i64) -> Result<ServiceIdentity, JwtError> {
    let claims: Claims = serde_json::from_slice(json).map_err(|_| JwtError::Malformed)?;
    claims.check_issuer(expected)?;
    let audiences = claims.audiences(expected)?;
    let (issued_at, expires_at) = claims.check_times(expected, now_unix_s)?;
    Ok(ServiceIdentity {
        subject: claims.sub.map(|sub| name(sub, "sub")).ok_or(JwtError::MissingClaim("sub"))??,
        audiences,
        scopes: scopes(claims.scopes, claims.scope)?,
        tenant: claims.tid.as_ref().map(tenant).transpose()?,
        jti: claims.jti.map(|jti| name(jti, "jti")).transpose()?,
        email: claims.email.as_ref().map(email).transpose()?,
        issued_at,
        expires_at,
    })
}

impl Claims {
    fn check_issuer(&self, expected: &Expected) -> Result<(), JwtError> {
        match &self.iss {
            None => Err(JwtError::MissingClaim("iss")),
            Some(Value::String(iss)) if *iss == expected.issuer => Ok(()),
            Some(Value::String(_)) => Err(JwtError::WrongIssuer),
            Some(_) => Err(JwtError::InvalidClaim("iss")),
        }
    }

    /// One text or an array of them; names of other services are none of our business.
    fn audiences(&self, expected: &Expected) -> Result<Audiences, JwtError> {
        let texts = match self.aud.as_ref().ok_or(JwtError::MissingClaim("aud"))? {
            one @ Value::String(_) => std::slice::from_ref(one),
            Value::Array(many) => many.as_slice(),
            _ => return Err(JwtError::InvalidClaim("aud")),
        };
        let mut audiences = Audiences::EMPTY;
        for text in texts {
            let text = text.as_str().ok_or(JwtError::InvalidClaim("aud"))?;
            if text == expected.audience_control {
                audiences = audiences.with(Audience::Control);
            }
            if text == expected.audience_exec {
                audiences = audiences.with(Audience::Exec);
            }
        }
        if audiences.is_empty() { Err(JwtError::WrongAudience) } else { Ok(audiences) }
    }

    /// Returns `iat`, or the earliest it can be, and `exp`.
    fn check_times(&self, expected: &Expected, now: i64) -> Result<(i64, i64), JwtError> {
        // Parts of a second are rounded against the bearer.
        let exp = self.exp.as_ref().ok_or(JwtError::MissingClaim("exp"))?;
        let exp = unix_s(exp, "exp", f64::floor)?;
        let nbf = self.nbf.as_ref().map(|nbf| unix_s(nbf, "nbf", f64::ceil)).transpose()?;
        let iat = self.iat.as_ref().map(|iat| unix_s(iat, "iat", f64::ceil)).transpose()?;
        if now.saturating_sub(exp) > LEEWAY_S {
            return Err(JwtError::Expired);
        }
        // A token from the future is either a wrong clock or a token prepared for later.
        if [nbf, iat].into_iter().flatten().any(|start| start.saturating_sub(now) > LEEWAY_S) {
            return Err(JwtError::NotYetValid);
        }
        let longest = expected.lifetime_max_s;
        let left_too_long = exp.saturating_sub(now) > longest.saturating_add(LEEWAY_S);
        let made_too_long = iat.is_some_and(|iat| exp.saturating_sub(iat) > longest);
        if left_too_long || made_too_long {
            return Err(JwtError::LivesTooLong);
        }
        Ok((iat.unwrap_or_else(|| exp.saturating_sub(longest)), exp))
    }
}

fn unix_s(value: &Value, claim: &'static str, round: fn(f64) -> f64) -> Result<i64, JwtError> {
    let Value::Number(number) = value else { return Err(JwtError::InvalidClaim(claim)) };
    let seconds = match number.as_i64() {
        Some(whole) => whole,
        // `as` saturates, and the range below refuses what saturated; what is not finite never gets there.
        None => match number.as_f64() {
            Some(parts) if parts.is_finite() => round(parts) as i64,
            _ => return Err(JwtError::InvalidClaim(claim)),
        },
    };
    if (0..=TIME_MAX_S).contains(&seconds) { Ok(seconds) } else { Err(JwtError::InvalidClaim(claim)) }
}

fn name(value: Value, claim: &'static str) -> Result<String, JwtError> {
    match value {
        Value::String(text)
            if !text.is_empty() && text.len() <= NAME_BYTES_MAX && !text.chars().any(char::is_control) =>
        {
            Ok(text)
        }
        _ => Err(JwtError::InvalidClaim(claim)),
    }
}

/// `scopes` is an array of texts, `scope` one text with spaces; both at once would leave open which one counts.
/// A text we do not know grants nothing: issuers write scopes of other services into the same token.
fn scopes(array: Option<Value>, spaced: Option<Value>) -> Result<Scopes, JwtError> {
    match (array, spaced) {
        (None, None) => Ok(Scopes::EMPTY),
        (Some(Value::Array(texts)), None) => {
            let mut scopes = Scopes::EMPTY;
            for text in &texts {
                let text = text.as_str().ok_or(JwtError::InvalidClaim("scopes"))?;
                scopes = known(scopes, text);
            }
            Ok(scopes)
        }
        (None, Some(Value::String(texts))) => Ok(texts.split(' ').fold(Scopes::EMPTY, known)),
        (None, Some(_)) => Err(JwtError::InvalidClaim("scope")),
        (Some(_), _) => Err(JwtError::InvalidClaim("scopes")),
    }
}

fn known(scopes: Scopes, text: &str) -> Scopes {
    text.parse().map_or(scopes, |scope| scopes.with(scope))
}

/// One UUID in its usual form with hyphens. No array, no braces, no space around it.
fn tenant(value: &Value) -> Result<Uuid, JwtError> {
    const HYPHENATED_CHARS: usize = 36;
    value
        .as_str()
        .filter(|text| text.len() == HYPHENATED_CHARS)
        .and_then(|text| Uuid::try_parse(text).ok())
        .ok_or(JwtError::InvalidClaim("tid"))
}

fn email(value: &Value) -> Result<Email, JwtError> {
    value.as_str().and_then(|text| text.parse().ok()).ok_or(JwtError::InvalidClaim("email"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::scope::Scope;

    const NOW: i64 = 1_800_000_000;

    fn expected() -> Expected {
        Expected {
            issuer: "buildos-internal".to_owned(),
            audience_control: "orchestrator-control".to_owned(),
            audience_exec: "orchestrator-exec".to_owned(),
            lifetime_max_s: 300,
        }
    }

    /// A good set of claims, with some replaced; `null` removes one.
    fn with(changes: Value) -> Result<ServiceIdentity, JwtError> {
        let mut claims = json!({
            "iss": "buildos-internal",
            "aud": "orchestrator-exec",
            "sub": "svc:buildos-backend",
            "exp": NOW + 60,
            "iat": NOW,
            "jti": "j1",
            "scopes": ["orchestrator.execute", "orchestrator.control.read"],
            "tid": "0190c0de-0000-7000-8000-000000000001",
        });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        identify(claims.to_string().as_bytes(), &expected(), NOW)
    }

    #[test]
    fn a_token_that_does_not_say_when_it_was_issued_is_as_old_as_it_can_be() {
        assert_eq!(with(json!({"iat": NOW - 7})).unwrap().issued_at, NOW - 7);
        let silent = with(json!({"iat": null})).unwrap();
        assert_eq!(silent.issued_at, silent.expires_at - crate::jwt::LIFETIME_MAX_S);
    }

    #[test]
    fn a_good_token_says_who_it_is() {
        let identity = with(json!({})).unwrap();
        assert_eq!(
            identity,
            ServiceIdentity {
                subject: "svc:buildos-backend".to_owned(),
                audiences: Audiences::of(Audience::Exec),
                scopes: Scopes::of(Scope::JobsWrite).with(Scope::ControlRead),
                tenant: Some(Uuid::from_u128(0x0190_c0de_0000_7000_8000_0000_0000_0001)),
                jti: Some("j1".to_owned()),
                email: None,
                issued_at: identity.issued_at,
                expires_at: NOW + 60,
            }
        );
    }

    #[test]
    fn an_address_is_one_or_the_token_is_refused() {
        let address = |email: Value| with(json!({ "email": email })).map(|identity| identity.email);
        assert_eq!(address(json!("ann@example.com")), Ok("ann@example.com".parse().ok()));
        assert_eq!(address(json!(null)), Ok(None));
        for bad in [json!(""), json!("ann"), json!(7), json!(["ann@example.com"])] {
            assert_eq!(address(bad.clone()), Err(JwtError::InvalidClaim("email")), "{bad}");
        }
    }

    #[test]
    fn the_issuer_is_ours_exactly() {
        assert_eq!(with(json!({"iss": null})), Err(JwtError::MissingClaim("iss")));
        assert_eq!(with(json!({"iss": "buildos-internal "})), Err(JwtError::WrongIssuer));
        assert_eq!(with(json!({"iss": ["buildos-internal"]})), Err(JwtError::InvalidClaim("iss")));
    }

    /// B006: the audience is a text or an array; another one is refused, a wrong type too.
    #[test]
    fn the_audience_names_one_of_our_doors() {
        let doors = |aud: Value| with(json!({ "aud": aud })).map(|identity| identity.audiences);
        assert_eq!(doors(json!("orchestrator-control")), Ok(Audiences::of(Audience::Control)));
        assert_eq!(doors(json!(["orchestrator-exec", "orchestrator-control"])), Ok(Audiences::ALL));
        assert_eq!(doors(json!(["billing", "orchestrator-exec"])), Ok(Audiences::of(Audience::Exec)));
        assert_eq!(doors(json!("billing")), Err(JwtError::WrongAudience));
        assert_eq!(doors(json!([])), Err(JwtError::WrongAudience));
        assert_eq!(doors(json!("orchestrator-exec ")), Err(JwtError::WrongAudience));
        assert_eq!(doors(json!("Orchestrator-Exec")), Err(JwtError::WrongAudience));
        assert_eq!(doors(json!(["orchestrator-exec", 7])), Err(JwtError::InvalidClaim("aud")));
        assert_eq!(doors(json!({"orchestrator-exec": 1})), Err(JwtError::InvalidClaim("aud")));
        assert_eq!(doors(json!(null)), Err(JwtError::MissingClaim("aud")));
    }

    /// B007.
    #[test]
    fn the_leeway_is_thirty_seconds_exactly() {
        assert!(with(json!({"exp": NOW - 30, "iat": NOW - 60})).is_ok());
        assert_eq!(with(json!({"exp": NOW - 31, "iat": NOW - 60})), Err(JwtError::Expired));
        assert_eq!(with(json!({"exp": NOW as f64 - 30.5, "iat": NOW - 60})), Err(JwtError::Expired));
        assert!(with(json!({"nbf": NOW + 30})).is_ok());
        assert_eq!(with(json!({"nbf": NOW + 31})), Err(JwtError::NotYetValid));
        assert_eq!(with(json!({"nbf": NOW as f64 + 30.5})), Err(JwtError::NotYetValid));
        assert!(with(json!({"iat": NOW + 30})).is_ok());
        assert_eq!(with(json!({"iat": NOW + 31})), Err(JwtError::NotYetValid));
    }

    /// B007: `exp` is there, a number, and finite.
    #[test]
    fn an_expiry_is_a_sane_number() {
        assert_eq!(with(json!({"exp": null})), Err(JwtError::MissingClaim("exp")));
        for bad in
            [json!("1800000060"), json!([NOW + 60]), json!({}), json!(true), json!(-1), json!(1e300), json!(-1e300)]
        {
            assert_eq!(with(json!({"exp": bad})), Err(JwtError::InvalidClaim("exp")), "{bad}");
        }
        assert_eq!(with(json!({"exp": u64::MAX})), Err(JwtError::InvalidClaim("exp")));
        assert_eq!(with(json!({"nbf": "0"})), Err(JwtError::InvalidClaim("nbf")));
        assert_eq!(with(json!({"iat": "0"})), Err(JwtError::InvalidClaim("iat")));

        let raw = |exp: &str| {
            let json = format!(r#"{{"iss":"buildos-internal","aud":"orchestrator-exec","sub":"s","exp":{exp}}}"#);
            identify(json.as_bytes(), &expected(), NOW)
        };
        assert!(raw("1800000060").is_ok());
        assert!(raw("1.80000006e9").is_ok());
        for exp in ["1e400", "-1e400", "NaN", "Infinity", "0x10", "1800000060,\"exp\":1800000060"] {
            assert_eq!(raw(exp), Err(JwtError::Malformed), "{exp}");
        }
    }

    #[test]
    fn a_token_lives_five_minutes_at_most() {
        assert!(with(json!({"exp": NOW + 300})).is_ok());
        assert_eq!(with(json!({"exp": NOW + 301})), Err(JwtError::LivesTooLong));
        assert!(with(json!({"exp": NOW + 330, "iat": null})).is_ok());
        assert_eq!(with(json!({"exp": NOW + 331, "iat": null})), Err(JwtError::LivesTooLong));
        assert_eq!(with(json!({"exp": NOW + 60, "iat": NOW - 9_000})), Err(JwtError::LivesTooLong));
    }

    #[test]
    fn subjects_and_token_ids_are_short_printable_texts() {
        assert_eq!(with(json!({"sub": null})), Err(JwtError::MissingClaim("sub")));
        for bad in [json!(""), json!(7), json!(["a"]), json!("a\nb"), json!("a\u{0}"), json!("x".repeat(257))] {
            assert_eq!(with(json!({"sub": bad})), Err(JwtError::InvalidClaim("sub")), "{bad}");
            assert_eq!(with(json!({"jti": bad})), Err(JwtError::InvalidClaim("jti")), "{bad}");
        }
        assert_eq!(with(json!({"jti": null})).unwrap().jti, None);
    }

    #[test]
    fn scopes_come_as_an_array_or_as_one_text() {
        let scopes = |changes| with(changes).map(|identity| identity.scopes);
        let two = Scopes::of(Scope::JobsWrite).with(Scope::DlqRead);
        assert_eq!(scopes(json!({"scopes": ["jobs.write", "orchestrator.dlq.read"]})), Ok(two));
        assert_eq!(scopes(json!({"scopes": null, "scope": "jobs.write dlq.read"})), Ok(two));
        assert_eq!(scopes(json!({"scopes": null})), Ok(Scopes::EMPTY));
        assert_eq!(scopes(json!({"scope": "jobs.write"})), Err(JwtError::InvalidClaim("scopes")));
        assert_eq!(scopes(json!({"scopes": "jobs.write"})), Err(JwtError::InvalidClaim("scopes")));
        assert_eq!(scopes(json!({"scopes": ["jobs.write", 7]})), Err(JwtError::InvalidClaim("scopes")));
        assert_eq!(scopes(json!({"scopes": null, "scope": ["jobs.write"]})), Err(JwtError::InvalidClaim("scope")));
    }

    #[test]
    fn a_scope_of_another_service_grants_nothing() {
        let identity = with(json!({"scopes": ["billing.write", "admin ", "ADMIN", "jobs.read"]})).unwrap();
        assert_eq!(identity.scopes, Scopes::of(Scope::JobsRead));
    }

    /// B008, B009.
    #[test]
    fn a_tenant_is_one_plain_uuid_or_absent() {
        assert_eq!(with(json!({"tid": null})).unwrap().tenant, None);
        let id = "0190c0de-0000-7000-8000-000000000001";
        for bad in [
            json!([id]),
            json!([id, "0190c0de-0000-7000-8000-000000000002"]),
            json!(format!("{id} ")),
            json!(format!(" {id}")),
            json!(format!("{{{id}}}")),
            json!(format!("urn:uuid:{id}")),
            json!(id.replace('-', "")),
            json!(""),
            json!("T1"),
            json!(1),
            json!({"id": id}),
        ] {
            assert_eq!(with(json!({"tid": bad})), Err(JwtError::InvalidClaim("tid")), "{bad}");
        }
    }

    #[test]
    fn duplicate_claims_are_refused() {
        let json = br#"{"iss":"a","iss":"buildos-internal"}"#;
        assert_eq!(identify(json, &expected(), NOW), Err(JwtError::Malformed));
    }

    #[test]
    fn extreme_clocks_do_not_overflow() {
        let json = format!(r#"{{"iss":"buildos-internal","aud":"orchestrator-exec","sub":"s","exp":{NOW}}}"#);
        assert_eq!(identify(json.as_bytes(), &expected(), i64::MAX), Err(JwtError::Expired));
        assert_eq!(identify(json.as_bytes(), &expected(), i64::MIN), Err(JwtError::LivesTooLong));
    }
}
