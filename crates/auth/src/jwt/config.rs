//! What a service JWT is measured against.

use std::fmt;
use std::sync::Arc;

use super::source::JwksFetcher;
use crate::secret::SecretBytes;

/// How long a service JWT may live when nothing else is configured: five minutes.
pub const LIFETIME_MAX_S: i64 = 300;

/// The shortest shared secret: as long as the hash it keys.
pub const SECRET_BYTES_MIN: usize = 32;

/// The issuer we believe, the names of our doors, and the keys.
#[derive(Debug, Clone)]
pub struct JwtConfig {
    /// What `iss` must say, exactly.
    pub issuer: String,
    /// What `aud` says for the control door.
    pub audience_control: String,
    /// What `aud` says for the exec door.
    pub audience_exec: String,
    /// The longest life we accept, in seconds; see [`LIFETIME_MAX_S`].
    pub lifetime_max_s: i64,
    pub keys: JwtKeys,
}

/// Where the keys come from; decides the algorithms, too.
#[derive(Clone)]
pub enum JwtKeys {
    /// HS256 and nothing else.
    SharedSecret(SecretBytes),
    /// RS256, ES256 and EdDSA by `kid`, from a key set that somebody fetches for us.
    Jwks(Arc<dyn JwksFetcher>),
}

impl fmt::Debug for JwtKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SharedSecret(_) => "SharedSecret(***)",
            Self::Jwks(_) => "Jwks",
        })
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JwtConfigError {
    #[error("{0} must not be empty")]
    Empty(&'static str),
    #[error("the control and exec audiences must differ, or a token for one door would open both")]
    SameAudience,
    #[error("the longest lifetime of a JWT must be at least 1 second, not {0}")]
    Lifetime(i64),
    #[error("the shared secret has {0} bytes; it needs at least {SECRET_BYTES_MIN}")]
    SecretTooShort(usize),
    #[error("the shared secret is a PEM file; a key pair is used through a JWKS, never as a shared secret")]
    SecretIsPem,
}

impl JwtConfig {
    pub fn check(&self) -> Result<(), JwtConfigError> {
        let texts = [
            ("the issuer", &self.issuer),
            ("the control audience", &self.audience_control),
            ("the exec audience", &self.audience_exec),
        ];
        for (name, text) in texts {
            if text.trim().is_empty() {
                return Err(JwtConfigError::Empty(name));
            }
        }
        if self.audience_control == self.audience_exec {
            return Err(JwtConfigError::SameAudience);
        }
        if self.lifetime_max_s < 1 {
            return Err(JwtConfigError::Lifetime(self.lifetime_max_s));
        }
        match &self.keys {
            // A public key is known to everybody: as a shared secret it would let anybody sign.
            JwtKeys::SharedSecret(secret) if secret.expose().trim_ascii_start().starts_with(b"-----BEGIN") => {
                Err(JwtConfigError::SecretIsPem)
            }
            JwtKeys::SharedSecret(secret) if secret.len() < SECRET_BYTES_MIN => {
                Err(JwtConfigError::SecretTooShort(secret.len()))
            }
            JwtKeys::SharedSecret(_) | JwtKeys::Jwks(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> JwtConfig {
        JwtConfig {
            issuer: "buildos-internal".to_owned(),
            audience_control: "orchestrator-control".to_owned(),
            audience_exec: "orchestrator-exec".to_owned(),
            lifetime_max_s: LIFETIME_MAX_S,
            keys: JwtKeys::SharedSecret(SecretBytes::new([7; SECRET_BYTES_MIN])),
        }
    }

    #[test]
    fn a_secret_of_32_bytes_is_enough_and_31_are_not() {
        assert_eq!(config().check(), Ok(()));
        let short = JwtConfig { keys: JwtKeys::SharedSecret(SecretBytes::new([7; 31])), ..config() };
        let error = short.check().unwrap_err();
        assert_eq!(error.to_string(), "the shared secret has 31 bytes; it needs at least 32");
    }

    #[test]
    fn a_pem_file_is_no_shared_secret() {
        let pem = format!("\n-----BEGIN PUBLIC KEY-----\n{}", "A".repeat(300));
        let config = JwtConfig { keys: JwtKeys::SharedSecret(SecretBytes::new(pem)), ..config() };
        assert_eq!(config.check(), Err(JwtConfigError::SecretIsPem));
    }

    #[test]
    fn empty_names_equal_doors_and_no_lifetime_are_refused() {
        let cases = [
            (JwtConfig { issuer: " ".to_owned(), ..config() }, JwtConfigError::Empty("the issuer")),
            (JwtConfig { audience_exec: String::new(), ..config() }, JwtConfigError::Empty("the exec audience")),
            (JwtConfig { audience_exec: config().audience_control, ..config() }, JwtConfigError::SameAudience),
            (JwtConfig { lifetime_max_s: 0, ..config() }, JwtConfigError::Lifetime(0)),
        ];
        for (config, expected) in cases {
            assert_eq!(config.check(), Err(expected));
        }
    }

    #[test]
    fn debug_does_not_show_the_secret() {
        assert!(format!("{:?}", config()).contains("SharedSecret(***)"));
    }
}
