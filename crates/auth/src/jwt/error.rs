//! Why a service JWT was refused. No sentence repeats anything the token says.

use super::jwks::JwksError;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    #[error("the token is longer than {} bytes", super::TEXT_BYTES_MAX)]
    TooLong,
    #[error("the credential does not have the form of a JWT")]
    Malformed,
    #[error("the token is signed with an algorithm that is not allowed here")]
    Algorithm,
    /// The named header parameter asks us to trust the token about keys, or to understand an extension.
    #[error("the token's header carries {0:?}, which is not allowed here")]
    Header(&'static str),
    #[error("the token does not name its key")]
    NoKeyId,
    #[error("the token names a key that is not in the key set")]
    UnknownKey,
    /// Our trouble, not the caller's: the key may exist, but the key set could not be fetched.
    #[error("the key set could not be refreshed")]
    KeysUnavailable(#[source] JwksError),
    #[error("the token's signature does not match")]
    Signature,
    #[error("the token has no claim {0:?}")]
    MissingClaim(&'static str),
    #[error("the token's claim {0:?} does not have the right form")]
    InvalidClaim(&'static str),
    #[error("the token is from another issuer")]
    WrongIssuer,
    #[error("the token was made for another audience")]
    WrongAudience,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    NotYetValid,
    #[error("the token lives longer than is allowed here")]
    LivesTooLong,
}

impl JwtError {
    /// Whether the same token may be accepted when it is tried again later.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::KeysUnavailable(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_keys_are_worth_another_try() {
        assert!(JwtError::KeysUnavailable(JwksError::Malformed).is_transient());
        for error in [JwtError::Expired, JwtError::WrongIssuer, JwtError::WrongAudience, JwtError::LivesTooLong] {
            assert!(!error.is_transient(), "{error}");
        }
    }
}
