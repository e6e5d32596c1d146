//! Service JWTs: who signed one, for which door, until when.
//!
//! Enters: the text of a bearer token and the time it is now. Leaves: a [`ServiceIdentity`] or a [`JwtError`].
//! Never here: a decision taken from the token itself. Which algorithm, which key, where keys come from: all of that is
//! configuration; the token's `kid` is a map key and nothing else.

mod claims;
mod config;
mod error;
mod header;
mod jwks;
#[cfg(test)]
mod samples;
mod source;
mod verify;

pub use claims::{LEEWAY_S, ServiceIdentity};
pub use config::{JwtConfig, JwtConfigError, JwtKeys, LIFETIME_MAX_S, SECRET_BYTES_MIN};
pub use error::JwtError;
pub use jwks::JwksError;
pub use source::{Fetching, JwksFetcher, REFRESH_EVERY_S};
pub use verify::{JwtVerifier, TEXT_BYTES_MAX};
