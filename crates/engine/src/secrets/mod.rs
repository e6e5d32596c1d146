//! Secrets that the server gives to agents: from what a command names to values, at the moment a run is handed out.
//!
//! Enters: the names of `secret_ref` resources. Leaves: values in memory that wipes itself, for whoever seals them. Never
//! here: a value in an error, in a log line or in the ledger; files and environments, which are behind [`SecretSource`].
//!
//! *Allowed*: of a reference: the configuration lets the tenant use this place and, in an environment, this prefix. It is
//! asked when a `secret_ref` is stored and again whenever it is used, because the configuration may have changed.

mod cache;
mod error;
mod resolver;
mod rules;
mod source;

pub(crate) use cache::forget_forever;
pub use error::SecretError;
pub use resolver::{SecretNeeds, Secrets};
pub use rules::{NotAllowed, SecretRules, TenantRules};
pub use source::{NoValue, SecretSource};
