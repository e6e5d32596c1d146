//! Secrets, as far as anything but their value is concerned: where one is kept, what a command may say about it, and what
//! looks like one that was written where it does not belong.
//!
//! Never here: a value. Whoever can read all of this crate's types can print them.

mod destination;
mod looks;
mod named;
mod reference;
mod spec;

pub use destination::{Destination, HostRule, InvalidHostRule};
pub use looks::{looks_secret, sounds_secret};
pub use named::{NamedSecret, NotASecretName};
pub use reference::{NotARef, SecretPlace, SecretRef};
pub use spec::{HTTP_REQUEST, NotAllowedBy, SecretRefSpec, SecretUse};
