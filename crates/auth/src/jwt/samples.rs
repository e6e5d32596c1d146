//! Keys and tokens for the tests of this room.
//!
//! Time is an argument, so a recorded token stays good: of the RSA key only the public half and one token exist. The
//! other keys are made from constants.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};

use super::config::{JwtConfig, JwtKeys, LIFETIME_MAX_S};
use super::source::{Fetching, JwksFetcher};
use super::verify::JwtVerifier;
use crate::secret::SecretBytes;

pub(crate) const NOW: i64 = 1_800_000_000;
pub(crate) const SECRET: &[u8] = &[7; 32];

pub(crate) const RSA_KID: &str = "rsa-1";
pub(crate) const EC_KID: &str = "ec-1";
pub(crate) const ED_KID: &str = "ed-1";

pub(crate) const RSA_N: &str = "rYYhR81U_Pchs6i8jk8zTuq7B0GXsAnu1mCVgUjoafJsFT_9F3zmQUcRxoMkBxMM2uAyc9CCZt7-jsogYqahl2oY2D40_GhOEIQs\
    je2ASMDeY2x70nml_CcKbKJjxnyR9EJg8HfIG6ODhTZL1tF8LCMpo4E4sHkQx6Zu97EyfpXfDDmMRDNIoJfoHpoPbNls4shcIafR\
    spTplI___EmwXwdC8THZ6QQek9dTz2CZJ0qeX7MObtAnKqNn5wxVvF-kT_9nnKnDb8_8ukhiPQcbuktKxOSedSdtzAOMNChpAni7\
    MiUws7JGtMYtqi5xnN-myBrGUSkuk9_9sECLrwWv8w";

pub(crate) const RSA_PUBLIC_PEM: &str = "-----BEGIN PUBLIC KEY-----\n\
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEArYYhR81U/Pchs6i8jk8z\n\
Tuq7B0GXsAnu1mCVgUjoafJsFT/9F3zmQUcRxoMkBxMM2uAyc9CCZt7+jsogYqah\n\
l2oY2D40/GhOEIQsje2ASMDeY2x70nml/CcKbKJjxnyR9EJg8HfIG6ODhTZL1tF8\n\
LCMpo4E4sHkQx6Zu97EyfpXfDDmMRDNIoJfoHpoPbNls4shcIafRspTplI///Emw\n\
XwdC8THZ6QQek9dTz2CZJ0qeX7MObtAnKqNn5wxVvF+kT/9nnKnDb8/8ukhiPQcb\n\
uktKxOSedSdtzAOMNChpAni7MiUws7JGtMYtqi5xnN+myBrGUSkuk9/9sECLrwWv\n\
8wIDAQAB\n\
-----END PUBLIC KEY-----\n";

/// For the control audience, issued at [`NOW`], good for five minutes.
pub(crate) const RS256_TOKEN: &str = "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InJzYS0xIn0.eyJpc3MiOiJidWlsZG9zLWludGVybmFsIiwiYXVkIjoi\
    b3JjaGVzdHJhdG9yLWNvbnRyb2wiLCJzdWIiOiJzdmM6b3BlcmF0b3ItY29uc29sZSIsImlhdCI6MTgwMDAwMDAwMCwiZXhwIjox\
    ODAwMDAwMzAwLCJzY29wZXMiOlsib3JjaGVzdHJhdG9yLmNvbnRyb2wucmVhZCJdfQ.bgexjqtPJ5sF2iRNKlIXK3RG9LekF-nON\
    FN9mNu4dzt7ZTsSVd1lEKJsnFH3T0lnliHnWNd91k0t6R-Mo8UaRSc3vl1ZAPzC-8iz1Sk0p8GJCXYREdTNQkrXsWWyMzshTiky4\
    8oRSzZEJ7OFLZh0HgVxdCQt77HmnsvecIREoPzwy9A23LyS0M68KAPlhaikKDXm6FRMO_UDXqLhjpmYPglJfeFNnWemi9DEQLgE8\
    1hHOM8GGLfp0hkRLj8a9f8VVpGsANSj4YOcWcGT4sZFFBVx2AxdVvJzkc6JTKoDWgq2sfNA0EwMuxjDO5u2JwyasWXv8caSSgLf-\
    JoCmKBn0g";

pub(crate) fn claims() -> Value {
    json!({
        "iss": "buildos-internal",
        "aud": "orchestrator-exec",
        "sub": "svc:buildos-backend",
        "iat": NOW,
        "exp": NOW + 60,
        "scopes": ["orchestrator.execute"],
    })
}

fn config(keys: JwtKeys) -> JwtConfig {
    JwtConfig {
        issuer: "buildos-internal".to_owned(),
        audience_control: "orchestrator-control".to_owned(),
        audience_exec: "orchestrator-exec".to_owned(),
        lifetime_max_s: LIFETIME_MAX_S,
        keys,
    }
}

pub(crate) fn shared_secret_verifier() -> JwtVerifier {
    JwtVerifier::new(config(JwtKeys::SharedSecret(SecretBytes::new(SECRET)))).unwrap()
}

/// Always brings the same key set.
pub(crate) struct FixedKeys {
    text: String,
    asked: AtomicUsize,
}

impl FixedKeys {
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl JwksFetcher for FixedKeys {
    fn fetch(&self) -> Fetching<'_> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(self.text.clone()) })
    }
}

pub(crate) fn jwks_verifier() -> (JwtVerifier, Arc<FixedKeys>) {
    let text = json!({ "keys": [rsa_jwk(), ec_jwk(), ed_jwk()] }).to_string();
    let keys = Arc::new(FixedKeys { text, asked: AtomicUsize::new(0) });
    (JwtVerifier::new(config(JwtKeys::Jwks(keys.clone()))).unwrap(), keys)
}

pub(crate) fn rsa_jwk() -> Value {
    json!({ "kty": "RSA", "kid": RSA_KID, "use": "sig", "alg": "RS256", "n": RSA_N, "e": "AQAB" })
}

pub(crate) fn ec_jwk() -> Value {
    public_half(&ec_key(), Algorithm::ES256, EC_KID)
}

pub(crate) fn ed_jwk() -> Value {
    public_half(&ed_key(), Algorithm::EdDSA, ED_KID)
}

fn public_half(key: &EncodingKey, algorithm: Algorithm, kid: &str) -> Value {
    let mut jwk = Jwk::from_encoding_key(key, algorithm).unwrap();
    jwk.common.key_id = Some(kid.to_owned());
    serde_json::to_value(jwk).unwrap()
}

/// PKCS#8 around the scalar 05 05 … 05.
fn ec_key() -> EncodingKey {
    let mut der = b"\x30\x41\x02\x01\x00\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\
        \x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x04\x27\x30\x25\x02\x01\x01\x04\x20"
        .to_vec();
    der.extend([5; 32]);
    EncodingKey::from_ec_der(&der)
}

/// PKCS#8 around the seed 06 06 … 06.
fn ed_key() -> EncodingKey {
    let mut der = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20".to_vec();
    der.extend([6; 32]);
    EncodingKey::from_ed_der(&der)
}

pub(crate) fn sign_hs256(secret: &[u8], claims: Value) -> String {
    sign_hs256_as(secret, None, claims)
}

pub(crate) fn sign_hs256_as(secret: &[u8], kid: Option<&str>, claims: Value) -> String {
    let mut header = json!({ "alg": "HS256", "typ": "JWT" });
    if let Some(kid) = kid {
        header["kid"] = json!(kid);
    }
    sign(&header, &claims.to_string(), &EncodingKey::from_secret(secret), Algorithm::HS256)
}

/// For claims that no JSON library would write.
pub(crate) fn sign_hs256_text(secret: &[u8], claims: &str) -> String {
    sign(&json!({ "alg": "HS256" }), claims, &EncodingKey::from_secret(secret), Algorithm::HS256)
}

pub(crate) fn sign_es256(kid: &str, claims: Value) -> String {
    sign(&json!({ "alg": "ES256", "kid": kid }), &claims.to_string(), &ec_key(), Algorithm::ES256)
}

pub(crate) fn sign_eddsa(kid: &str, claims: Value) -> String {
    sign(&json!({ "alg": "EdDSA", "kid": kid }), &claims.to_string(), &ed_key(), Algorithm::EdDSA)
}

fn sign(header: &Value, claims: &str, key: &EncodingKey, algorithm: Algorithm) -> String {
    let signed = format!("{}.{}", encode(&header.to_string()), encode(claims));
    let signature = jsonwebtoken::crypto::sign(signed.as_bytes(), key, algorithm).unwrap();
    format!("{signed}.{signature}")
}

/// A token whose signature is whatever the test says.
pub(crate) fn join(header: &Value, claims: &Value, signature: &str) -> String {
    format!("{}.{}.{signature}", encode(&header.to_string()), encode(&claims.to_string()))
}

fn encode(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(text)
}
