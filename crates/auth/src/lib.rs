//! Who is calling, and what they may do.
//!
//! Enters: the text of a credential (an API or worker token, a service JWT) and the time it is now.
//! Leaves: a [`Caller`] with its scopes, audiences and tenant, or a refusal that never repeats the credential.
//! Never here: HTTP, storage, clocks, randomness, the network. Entropy and time are arguments, stored hashes are
//! handed in, and a key set is fetched by whoever implements [`jwt::JwksFetcher`].

pub mod audience;
mod base32;
pub mod caller;
pub mod email;
pub mod jwt;
pub mod replay;
pub mod scope;
pub mod secret;
pub mod token;

pub use audience::{Audience, Audiences};
pub use caller::{Actor, Caller, Denied};
pub use email::{Email, NotAnEmail};
pub use jwt::{JwksFetcher, JwtConfig, JwtError, JwtKeys, JwtVerifier, ServiceIdentity};
pub use replay::{ReplayCache, Sighting};
pub use scope::{Scope, Scopes, UnknownScope};
pub use secret::{SecretBytes, SecretText};
pub use token::{TokenError, TokenId, TokenKind, TokenText};
