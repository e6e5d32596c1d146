//! From the text of a JWT to the service behind it.
//!
//! The order is the point: length, form, algorithm, key, signature, and only then what the claims say. Nothing a token
//! says is used before its signature is checked, except the name of the key to check it with.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};

use super::claims::{self, Expected, ServiceIdentity};
use super::config::{JwtConfig, JwtConfigError, JwtKeys};
use super::error::JwtError;
use super::header::Header;
use super::jwks::{JwksError, VerifyingKey};
use super::source::KeySource;

/// A token longer than this is refused unread.
pub const TEXT_BYTES_MAX: usize = 8 * 1024;

/// Verifies service JWTs against one configuration.
#[derive(Debug)]
pub struct JwtVerifier {
    expected: Expected,
    keys: Keys,
}

#[derive(Debug)]
enum Keys {
    SharedSecret(Arc<VerifyingKey>),
    Jwks(KeySource),
}

impl JwtVerifier {
    /// Checks the configuration. With a JWKS no key is known yet: call [`Self::refresh_keys`] before the first request.
    pub fn new(config: JwtConfig) -> Result<Self, JwtConfigError> {
        config.check()?;
        let expected = Expected::from(&config);
        let keys = match config.keys {
            JwtKeys::SharedSecret(secret) => Keys::SharedSecret(Arc::new(VerifyingKey {
                algorithm: Algorithm::HS256,
                key: DecodingKey::from_secret(secret.expose()),
            })),
            JwtKeys::Jwks(fetcher) => Keys::Jwks(KeySource::new(fetcher)),
        };
        Ok(Self { expected, keys })
    }

    /// Who sent this token. Waits only when its key is unknown and it is time to look for new ones.
    pub async fn verify(&self, token: &str, now_unix_s: i64) -> Result<ServiceIdentity, JwtError> {
        let parts = Parts::split(token)?;
        let header = Header::parse(&parts.header()?)?;
        let key = self.key_for(header, now_unix_s).await?;
        parts.check_signature(&key)?;
        claims::identify(&parts.claims()?, &self.expected, now_unix_s)
    }

    /// Fetches the key set now: at the start, and from time to time so that withdrawn keys leave. Does nothing with a
    /// shared secret. On failure the old keys stay in use.
    pub async fn refresh_keys(&self, now_unix_s: i64) -> Result<(), JwksError> {
        match &self.keys {
            Keys::SharedSecret(_) => Ok(()),
            Keys::Jwks(source) => source.refresh(now_unix_s).await,
        }
    }

    /// The key decides the algorithm; the token may only agree.
    async fn key_for(&self, header: Header, now_unix_s: i64) -> Result<Arc<VerifyingKey>, JwtError> {
        match &self.keys {
            // One secret, so a `kid` has nothing to choose.
            Keys::SharedSecret(key) => agree(Arc::clone(key), header.algorithm),
            // Before the key is looked up: a public key must never be tried as a shared secret.
            Keys::Jwks(_) if header.algorithm == Algorithm::HS256 => Err(JwtError::Algorithm),
            Keys::Jwks(source) => {
                let kid = header.kid.ok_or(JwtError::NoKeyId)?;
                agree(source.get(&kid, now_unix_s).await?, header.algorithm)
            }
        }
    }
}

fn agree(key: Arc<VerifyingKey>, algorithm: Algorithm) -> Result<Arc<VerifyingKey>, JwtError> {
    if key.algorithm == algorithm { Ok(key) } else { Err(JwtError::Algorithm) }
}

/// A token's three parts, still encoded.
struct Parts<'a> {
    /// Header and claims with the dot between them: what was signed.
    signed: &'a str,
    header: &'a str,
    claims: &'a str,
    signature: &'a str,
}

impl<'a> Parts<'a> {
    fn split(token: &'a str) -> Result<Self, JwtError> {
        if token.len() > TEXT_BYTES_MAX {
            return Err(JwtError::TooLong);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(JwtError::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(JwtError::Malformed)?;
        Ok(Self { signed, header, claims, signature })
    }

    fn header(&self) -> Result<Vec<u8>, JwtError> {
        decode(self.header)
    }

    fn claims(&self) -> Result<Vec<u8>, JwtError> {
        decode(self.claims)
    }

    fn check_signature(&self, key: &VerifyingKey) -> Result<(), JwtError> {
        match jsonwebtoken::crypto::verify(self.signature, self.signed.as_bytes(), &key.key, key.algorithm) {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(JwtError::Signature),
        }
    }
}

/// Strict: no padding, no other alphabet, no set bits beyond the end. A fourth part fails here, as a dot in the claims.
fn decode(part: &str) -> Result<Vec<u8>, JwtError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| JwtError::Malformed)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::audience::{Audience, Audiences};
    use crate::jwt::samples::*;
    use crate::scope::{Scope, Scopes};

    async fn by_secret(token: &str) -> Result<ServiceIdentity, JwtError> {
        shared_secret_verifier().verify(token, NOW).await
    }

    async fn by_jwks(token: &str) -> Result<ServiceIdentity, JwtError> {
        let (verifier, _) = jwks_verifier();
        verifier.verify(token, NOW).await
    }

    #[tokio::test]
    async fn a_shared_secret_verifies_hs256() {
        let identity = by_secret(&sign_hs256(SECRET, claims())).await.unwrap();
        assert_eq!(identity.subject, "svc:buildos-backend");
        assert_eq!(identity.audiences, Audiences::of(Audience::Exec));
        assert_eq!(identity.scopes, Scopes::of(Scope::JobsWrite));
        assert_eq!(identity.expires_at, NOW + 60);
    }

    #[tokio::test]
    async fn a_key_set_verifies_rs256_es256_and_eddsa() {
        let console = by_jwks(RS256_TOKEN).await.unwrap();
        assert_eq!(console.subject, "svc:operator-console");
        assert_eq!(console.audiences, Audiences::of(Audience::Control));
        assert_eq!(by_jwks(&sign_es256(EC_KID, claims())).await.unwrap().subject, "svc:buildos-backend");
        assert_eq!(by_jwks(&sign_eddsa(ED_KID, claims())).await.unwrap().subject, "svc:buildos-backend");
    }

    #[tokio::test]
    async fn another_secret_or_key_is_refused() {
        let other = [8; 32];
        assert_eq!(by_secret(&sign_hs256(&other, claims())).await, Err(JwtError::Signature));
        // Signed by the EC key, under another key's name.
        assert_eq!(by_jwks(&sign_es256(ED_KID, claims())).await, Err(JwtError::Algorithm));
        assert_eq!(by_jwks(&sign_eddsa("nobody", claims())).await, Err(JwtError::UnknownKey));
    }

    /// B003.
    #[tokio::test]
    async fn alg_none_is_refused() {
        for alg in ["none", "None", "NONE", "nOnE", ""] {
            for signature in ["", "AAAA"] {
                let token = join(&json!({"alg": alg, "typ": "JWT", "kid": ED_KID}), &claims(), signature);
                assert_eq!(by_secret(&token).await, Err(JwtError::Algorithm), "{alg}");
                assert_eq!(by_jwks(&token).await, Err(JwtError::Algorithm), "{alg}");
            }
        }
        // The right algorithm without a signature is no better.
        let unsigned = join(&json!({"alg": "HS256"}), &claims(), "");
        assert_eq!(by_secret(&unsigned).await, Err(JwtError::Signature));
    }

    /// B004: the public key is public; as an HMAC secret it would let anybody sign.
    #[tokio::test]
    async fn an_rsa_public_key_is_no_shared_secret() {
        let jwk_text = rsa_jwk().to_string();
        let forms = [RSA_PUBLIC_PEM, RSA_PUBLIC_PEM.trim_end(), RSA_N, jwk_text.as_str()];
        for secret in forms {
            for kid in [None, Some(RSA_KID), Some(ED_KID)] {
                let token = sign_hs256_as(secret.as_bytes(), kid, claims());
                assert_eq!(by_jwks(&token).await, Err(JwtError::Algorithm));
            }
        }
        let modulus = URL_SAFE_NO_PAD.decode(RSA_N).unwrap();
        assert_eq!(by_jwks(&sign_hs256_as(&modulus, Some(RSA_KID), claims())).await, Err(JwtError::Algorithm));
    }

    #[tokio::test]
    async fn a_shared_secret_accepts_no_key_pair() {
        assert_eq!(by_secret(RS256_TOKEN).await, Err(JwtError::Algorithm));
        assert_eq!(by_secret(&sign_eddsa(ED_KID, claims())).await, Err(JwtError::Algorithm));
    }

    /// B005: a `kid` is a map key; what looks like a path or a query finds nothing and reaches nobody.
    #[tokio::test]
    async fn a_kid_is_only_a_map_key() {
        for kid in ["../../dev/null", "/etc/passwd", "http://evil.example/k", "' or 1=1 --", "", "ed-1\0", "ED-1"] {
            assert_eq!(by_jwks(&sign_eddsa(kid, claims())).await, Err(JwtError::UnknownKey), "{kid}");
        }
        let header = json!({"alg": "EdDSA"});
        assert_eq!(by_jwks(&join(&header, &claims(), "AAAA")).await, Err(JwtError::NoKeyId));
        // With a shared secret it chooses nothing at all.
        assert!(by_secret(&sign_hs256_as(SECRET, Some("../../dev/null"), claims())).await.is_ok());
    }

    /// B005: a long `kid` is refused before anybody is asked for keys.
    #[tokio::test]
    async fn a_long_kid_or_a_foreign_address_asks_nobody() {
        let (verifier, fetcher) = jwks_verifier();
        let ten_kib = sign_eddsa(&"k".repeat(10 * 1024), claims());
        assert_eq!(verifier.verify(&ten_kib, NOW).await, Err(JwtError::TooLong));
        let long = sign_eddsa(&"k".repeat(300), claims());
        assert_eq!(verifier.verify(&long, NOW).await, Err(JwtError::UnknownKey));
        for name in ["jku", "x5u"] {
            let mut header = json!({"alg": "RS256", "kid": "evil"});
            header[name] = json!("https://evil.example/jwks.json");
            let token = join(&header, &claims(), "AAAA");
            assert_eq!(
                verifier.verify(&token, NOW).await,
                Err(JwtError::Header(if name == "jku" { "jku" } else { "x5u" }))
            );
        }
        assert_eq!(verifier.verify(&sign_hs256(SECRET, claims()), NOW).await, Err(JwtError::Algorithm));
        assert_eq!(fetcher.asked(), 0);
    }

    #[tokio::test]
    async fn an_unknown_kid_makes_one_look_and_then_waits() {
        let (verifier, fetcher) = jwks_verifier();
        assert!(verifier.verify(RS256_TOKEN, NOW).await.is_ok());
        for _ in 0..50 {
            assert_eq!(verifier.verify(&sign_eddsa("nobody", claims()), NOW).await, Err(JwtError::UnknownKey));
        }
        assert_eq!(fetcher.asked(), 1);
    }

    /// B006: the identity says which door the token opens; `Caller::require_audience` refuses the other.
    #[tokio::test]
    async fn a_token_for_another_audience_is_refused() {
        let with_aud = |aud: Value| {
            let mut claims = claims();
            claims["aud"] = aud;
            sign_hs256(SECRET, claims)
        };
        assert_eq!(by_secret(&with_aud(json!("somebody-else"))).await, Err(JwtError::WrongAudience));
        let exec = crate::Caller::from(by_secret(&with_aud(json!("orchestrator-exec"))).await.unwrap());
        assert!(exec.require_audience(Audience::Control).is_err());
    }

    /// B007, through the door; the finer cases stand next to the claims.
    #[tokio::test]
    async fn time_is_an_argument() {
        let token = sign_hs256(SECRET, claims());
        let verifier = shared_secret_verifier();
        assert!(verifier.verify(&token, NOW + 90).await.is_ok());
        assert_eq!(verifier.verify(&token, NOW + 91).await, Err(JwtError::Expired));
        assert!(verifier.verify(&token, NOW - 30).await.is_ok());
        assert_eq!(verifier.verify(&token, NOW - 31).await, Err(JwtError::NotYetValid));
        for exp in [r#""1800000060""#, "1e400", "null"] {
            let claims = format!(r#"{{"iss":"buildos-internal","aud":"orchestrator-exec","sub":"s","exp":{exp}}}"#);
            assert!(verifier.verify(&sign_hs256_text(SECRET, &claims), NOW).await.is_err(), "{exp}");
        }
    }

    #[tokio::test]
    async fn the_signature_is_checked_before_the_claims() {
        let mut expired = claims();
        expired["exp"] = json!(1);
        assert_eq!(by_secret(&sign_hs256(&[8; 32], expired.clone())).await, Err(JwtError::Signature));
        assert_eq!(by_secret(&sign_hs256(SECRET, expired)).await, Err(JwtError::Expired));
    }

    #[tokio::test]
    async fn any_changed_character_is_refused() {
        for good in [sign_hs256(SECRET, claims()), sign_eddsa(ED_KID, claims())] {
            let hs256 = by_secret(&good).await.is_ok();
            for at in 0..good.len() {
                for new in ['A', 'Q', '-', '.', ' ', '=', '\n', 'é'] {
                    let changed: String =
                        good.chars().enumerate().map(|(i, old)| if i == at { new } else { old }).collect();
                    if changed == good {
                        continue;
                    }
                    let answer = if hs256 { by_secret(&changed).await } else { by_jwks(&changed).await };
                    assert!(answer.is_err(), "{changed}");
                }
            }
        }
    }

    #[tokio::test]
    async fn what_is_no_jwt_is_refused() {
        let good = sign_hs256(SECRET, claims());
        let (signed, signature) = good.rsplit_once('.').unwrap();
        for bad in [
            String::new(),
            ".".to_owned(),
            "..".to_owned(),
            "...".to_owned(),
            "null".to_owned(),
            "bow_api_x".to_owned(),
            signed.to_owned(),
            format!("{good}.{signature}"),
            format!("{signed}.x.{signature}"),
            format!(" {good}"),
            format!("{good} "),
            format!("{good}="),
            format!("Bearer {good}"),
        ] {
            assert!(by_secret(&bad).await.is_err(), "{bad:?}");
            assert!(by_jwks(&bad).await.is_err(), "{bad:?}");
        }
    }

    #[tokio::test]
    async fn eight_kib_pass_and_one_byte_more_does_not() {
        let padded = |padding: usize| {
            let mut claims = claims();
            claims["pad"] = json!("x".repeat(padding));
            sign_hs256(SECRET, claims)
        };
        let longest = (0..8_192).rev().map(padded).find(|token| token.len() <= TEXT_BYTES_MAX).unwrap();
        assert!(longest.len() > TEXT_BYTES_MAX - 3);
        assert!(by_secret(&longest).await.is_ok());
        assert_eq!(by_secret(&"x".repeat(TEXT_BYTES_MAX + 1)).await, Err(JwtError::TooLong));
        assert_eq!(by_secret(&padded(9_000)).await, Err(JwtError::TooLong));
    }

    #[tokio::test]
    async fn neither_errors_nor_debug_repeat_a_token_or_a_secret() {
        let mut claims = claims();
        claims["tid"] = json!("marked-value");
        let error = by_secret(&sign_hs256(SECRET, claims)).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("marked-value"));
        let verifier = format!("{:?}", shared_secret_verifier());
        assert!(!verifier.contains("7, 7, 7"), "{verifier}");
    }

    #[test]
    fn a_verification_can_move_between_threads() {
        fn assert_send<T: Send>(_: T) {}
        let verifier = shared_secret_verifier();
        assert_send(verifier.verify("", NOW));
        assert_send(verifier.refresh_keys(NOW));
    }
}
