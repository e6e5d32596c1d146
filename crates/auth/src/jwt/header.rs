//! The first part of a JWT: which algorithm, which key.
//!
//! The header is written by whoever sends the token, before anything is verified. We take two words from it, the
//! algorithm's name and the key's, and refuse every header that asks for more: keys it brings along (`jwk`, `x5c`), keys
//! to download (`jku`, `x5u`), extensions we must understand (`crit`, `b64`), compression or encryption.

use jsonwebtoken::Algorithm;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::error::JwtError;

/// A `kid` longer than this names no key of ours and is not worth a refresh.
const KID_BYTES_MAX: usize = 256;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub algorithm: Algorithm,
    pub kid: Option<String>,
}

/// Duplicate members are refused by serde, unknown ones mean nothing.
#[derive(Deserialize)]
struct RawHeader {
    alg: String,
    kid: Option<String>,
    jku: Option<IgnoredAny>,
    jwk: Option<IgnoredAny>,
    x5u: Option<IgnoredAny>,
    x5c: Option<IgnoredAny>,
    crit: Option<IgnoredAny>,
    b64: Option<IgnoredAny>,
    zip: Option<IgnoredAny>,
    enc: Option<IgnoredAny>,
}

impl Header {
    pub(super) fn parse(json: &[u8]) -> Result<Self, JwtError> {
        let raw: RawHeader = serde_json::from_slice(json).map_err(|_| JwtError::Malformed)?;
        let forbidden = [
            ("jku", raw.jku),
            ("jwk", raw.jwk),
            ("x5u", raw.x5u),
            ("x5c", raw.x5c),
            ("crit", raw.crit),
            ("b64", raw.b64),
            ("zip", raw.zip),
            ("enc", raw.enc),
        ];
        if let Some((name, _)) = forbidden.into_iter().find(|(_, value)| value.is_some()) {
            return Err(JwtError::Header(name));
        }
        let algorithm = match raw.alg.as_str() {
            "HS256" => Algorithm::HS256,
            "RS256" => Algorithm::RS256,
            "ES256" => Algorithm::ES256,
            "EdDSA" => Algorithm::EdDSA,
            _ => return Err(JwtError::Algorithm),
        };
        if raw.kid.as_ref().is_some_and(|kid| kid.len() > KID_BYTES_MAX) {
            return Err(JwtError::UnknownKey);
        }
        Ok(Self { algorithm, kid: raw.kid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_algorithms_are_known() {
        for (name, algorithm) in [
            ("HS256", Algorithm::HS256),
            ("RS256", Algorithm::RS256),
            ("ES256", Algorithm::ES256),
            ("EdDSA", Algorithm::EdDSA),
        ] {
            let json = format!(r#"{{"alg":"{name}","typ":"JWT","kid":"k"}}"#);
            assert_eq!(Header::parse(json.as_bytes()), Ok(Header { algorithm, kid: Some("k".to_owned()) }));
        }
    }

    /// B003.
    #[test]
    fn none_is_no_algorithm_however_it_is_spelt() {
        for name in ["none", "None", "NONE", "nOnE", "", "hs256", "HS384", "RS512", "PS256", "ES384", "HS256 "] {
            let json = format!(r#"{{"alg":"{name}"}}"#);
            assert_eq!(Header::parse(json.as_bytes()), Err(JwtError::Algorithm), "{name}");
        }
    }

    /// B005: keys that travel with the token, and extensions we do not know.
    #[test]
    fn a_header_that_asks_for_more_is_refused() {
        for name in ["jku", "jwk", "x5u", "x5c", "crit", "b64", "zip", "enc"] {
            for value in [r#""https://evil.example/jwks""#, r#"{"kty":"oct","k":"AA"}"#, r#"["exp"]"#, "false"] {
                let json = format!(r#"{{"alg":"RS256","kid":"k","{name}":{value}}}"#);
                assert_eq!(Header::parse(json.as_bytes()), Err(JwtError::Header(name)), "{json}");
            }
        }
    }

    #[test]
    fn a_key_id_is_short() {
        let json = |len| format!(r#"{{"alg":"RS256","kid":"{}"}}"#, "k".repeat(len));
        assert!(Header::parse(json(256).as_bytes()).is_ok());
        assert_eq!(Header::parse(json(257).as_bytes()), Err(JwtError::UnknownKey));
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let deep = "[".repeat(5_000);
        for json in [
            "",
            "{}",
            "[]",
            "null",
            r#"{"alg":null}"#,
            r#"{"alg":["HS256"]}"#,
            r#"{"alg":"HS256","alg":"none"}"#,
            r#"{"alg":"HS256","kid":7}"#,
            r#"{"alg":"HS256"} x"#,
            &deep,
        ] {
            assert_eq!(Header::parse(json.as_bytes()), Err(JwtError::Malformed), "{json}");
        }
    }
}
