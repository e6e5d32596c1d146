//! A key set (JWKS): public keys by name.
//!
//! Enters: the text of a key set, as fetched. Leaves: a map from `kid` to a key with its one algorithm.
//! A key we cannot use (an encryption key, another curve, a weak modulus, no `kid`) is left out, because issuers publish
//! such keys next to ours. Symmetric keys are always left out: a set that is public must never hold a secret.

use std::collections::HashMap;
use std::sync::Arc;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use serde::Deserialize;
use serde_json::Value;

/// Issuers publish a handful of keys; more than this is not a key set.
const KEYS_MAX: usize = 100;
const TEXT_BYTES_MAX: usize = 512 * 1024;

const RSA_MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=512;
const RSA_EXPONENT_BYTES: std::ops::RangeInclusive<usize> = 1..=4;
const ED25519_BYTES: usize = 32;
/// An uncompressed point: a tag and two coordinates.
const P256_POINT_BYTES: usize = 65;

/// Why there is no new key set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JwksError {
    #[error("the key set could not be fetched: {0}")]
    Fetch(String),
    #[error("the key set is longer than {TEXT_BYTES_MAX} bytes")]
    TooLong,
    #[error("the key set is not a JSON object with an array \"keys\"")]
    Malformed,
    #[error("the key set has more than {KEYS_MAX} keys")]
    TooManyKeys,
    #[error("the key set holds two keys with the same kid")]
    DuplicateKid,
    #[error("the key set holds no RS256, ES256 or EdDSA key with a kid")]
    NoUsableKey,
}

/// A key and the one algorithm it verifies.
#[derive(Debug)]
pub(super) struct VerifyingKey {
    pub algorithm: Algorithm,
    pub key: DecodingKey,
}

#[derive(Debug, Default)]
pub(super) struct KeySet(HashMap<String, Arc<VerifyingKey>>);

#[derive(Deserialize)]
struct RawSet {
    keys: Vec<Value>,
}

impl KeySet {
    pub(super) fn parse(text: &str) -> Result<Self, JwksError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(JwksError::TooLong);
        }
        let raw: RawSet = serde_json::from_str(text).map_err(|_| JwksError::Malformed)?;
        if raw.keys.len() > KEYS_MAX {
            return Err(JwksError::TooManyKeys);
        }
        let mut keys = HashMap::new();
        for value in raw.keys {
            let Some((kid, key)) = usable(value) else { continue };
            if keys.insert(kid, Arc::new(key)).is_some() {
                return Err(JwksError::DuplicateKid);
            }
        }
        if keys.is_empty() { Err(JwksError::NoUsableKey) } else { Ok(Self(keys)) }
    }

    pub(super) fn find(&self, kid: &str) -> Option<&Arc<VerifyingKey>> {
        self.0.get(kid)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The key, if it is one of ours. The lengths are checked here because the library panics on an Ed25519 key that is too
/// short, and would only notice the others at the first token.
fn usable(value: Value) -> Option<(String, VerifyingKey)> {
    let jwk: Jwk = serde_json::from_value(value).ok()?;
    let common = &jwk.common;
    if common.public_key_use.as_ref().is_some_and(|intent| *intent != PublicKeyUse::Signature) {
        return None;
    }
    if common.key_operations.as_ref().is_some_and(|operations| !operations.contains(&KeyOperations::Verify)) {
        return None;
    }
    let key = DecodingKey::from_jwk(&jwk).ok()?;
    let algorithm = match (&jwk.algorithm, key.kind()) {
        (AlgorithmParameters::RSA(_), DecodingKeyKind::RsaModulusExponent { n, e })
            if n.first().is_some_and(|byte| *byte != 0)
                && RSA_MODULUS_BYTES.contains(&n.len())
                && RSA_EXPONENT_BYTES.contains(&e.len()) =>
        {
            Algorithm::RS256
        }
        (AlgorithmParameters::EllipticCurve(parameters), DecodingKeyKind::SecretOrDer(point))
            if parameters.curve == EllipticCurve::P256 && point.len() == P256_POINT_BYTES =>
        {
            Algorithm::ES256
        }
        (AlgorithmParameters::OctetKeyPair(parameters), DecodingKeyKind::SecretOrDer(point))
            if parameters.curve == EllipticCurve::Ed25519 && point.len() == ED25519_BYTES =>
        {
            Algorithm::EdDSA
        }
        _ => return None,
    };
    if common.key_algorithm.is_some_and(|named| named != KeyAlgorithm::from(algorithm)) {
        return None;
    }
    // A point that is not on its curve is an error here; an empty signature that does not match is what we expect.
    jsonwebtoken::crypto::verify("", b"", &key, algorithm).ok()?;
    let kid = jwk.common.key_id?;
    Some((kid, VerifyingKey { algorithm, key }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::jwt::samples::{EC_KID, ED_KID, RSA_KID, ec_jwk, ed_jwk, rsa_jwk};

    fn parse(keys: Value) -> Result<KeySet, JwksError> {
        KeySet::parse(&json!({ "keys": keys }).to_string())
    }

    #[test]
    fn each_kind_of_key_has_its_one_algorithm() {
        let set = parse(json!([rsa_jwk(), ec_jwk(), ed_jwk()])).unwrap();
        assert_eq!(set.len(), 3);
        for (kid, algorithm) in [(RSA_KID, Algorithm::RS256), (EC_KID, Algorithm::ES256), (ED_KID, Algorithm::EdDSA)] {
            assert_eq!(set.find(kid).unwrap().algorithm, algorithm);
        }
        assert!(set.find("").is_none());
        assert!(set.find("../../dev/null").is_none());
    }

    #[test]
    fn keys_we_cannot_use_are_left_out() {
        let change = |mut jwk: Value, name: &str, value: Value| {
            jwk[name] = value;
            jwk
        };
        let left_out = [
            json!({"kty": "oct", "kid": "o", "k": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}),
            json!({"kty": "oct", "kid": "o", "alg": "HS256", "k": "AAAA"}),
            json!({"kty": "who knows", "kid": "w"}),
            json!("text"),
            json!(null),
            change(rsa_jwk(), "kid", json!(null)),
            change(rsa_jwk(), "kid", json!(7)),
            change(rsa_jwk(), "use", json!("enc")),
            change(rsa_jwk(), "key_ops", json!(["encrypt"])),
            change(rsa_jwk(), "alg", json!("RS512")),
            change(rsa_jwk(), "alg", json!("HS256")),
            change(rsa_jwk(), "n", json!("AQAB")),
            change(rsa_jwk(), "n", json!("")),
            change(rsa_jwk(), "e", json!("")),
            change(rsa_jwk(), "n", json!("A".repeat(342))),
            change(ec_jwk(), "crv", json!("P-384")),
            change(ec_jwk(), "x", json!("AAAA")),
            change(ec_jwk(), "x", ec_jwk()["y"].clone()),
            change(ed_jwk(), "x", json!("AAAA")),
            change(ed_jwk(), "x", json!("")),
            change(ed_jwk(), "crv", json!("Ed448")),
            change(ed_jwk(), "crv", json!("P-256")),
        ];
        for jwk in left_out {
            let set = parse(json!([jwk, ed_jwk()])).map(|set| set.len());
            let alone = parse(json!([jwk])).map(|set| set.len());
            assert_eq!(alone, Err(JwksError::NoUsableKey), "{jwk}");
            assert_eq!(set, Ok(1), "{jwk}");
        }
    }

    #[test]
    fn a_key_may_say_that_it_verifies_signatures() {
        let mut jwk = rsa_jwk();
        jwk["use"] = json!("sig");
        jwk["alg"] = json!("RS256");
        jwk["key_ops"] = json!(["verify"]);
        assert_eq!(parse(json!([jwk])).unwrap().len(), 1);
    }

    #[test]
    fn what_is_no_key_set_is_refused() {
        for text in ["", "{}", "[]", "null", r#"{"keys":{}}"#, "<html>", &"[".repeat(9_000)] {
            assert_eq!(KeySet::parse(text).unwrap_err(), JwksError::Malformed, "{text}");
        }
        assert_eq!(parse(json!([])).unwrap_err(), JwksError::NoUsableKey);
        assert_eq!(parse(json!([ed_jwk(), ed_jwk()])).unwrap_err(), JwksError::DuplicateKid);
        assert_eq!(parse(vec![json!(1); 101].into()).unwrap_err(), JwksError::TooManyKeys);
        assert_eq!(KeySet::parse(&" ".repeat(TEXT_BYTES_MAX + 1)).unwrap_err(), JwksError::TooLong);
    }
}
