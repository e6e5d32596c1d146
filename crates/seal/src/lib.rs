//! Secrets on their way: the values a run needs, sealed by the server to the key of the one agent that executes it.
//!
//! Enters: values, the agent's public key, and the run with its fence. Leaves: bytes that only this agent opens, and only
//! for this run and fence. Never here: where values come from, and what becomes of them after they were opened.
//!
//! HPKE (RFC 9180) in its base mode, with X25519, HKDF-SHA256 and ChaCha20-Poly1305; decision 0009 says why.

mod envelope;
mod key;
mod value;

pub use envelope::{Addressed, NotOpened, NotSealed, open, seal};
pub use key::{NotAKey, OpeningKey, SealingKey};
pub use value::{SecretValue, Values};
