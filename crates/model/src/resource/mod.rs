//! Resources: configuration that people write, and of which the ledger keeps every version.

mod kind;
mod spec;

pub use kind::{NotAKind, ResourceKind};
pub use spec::{BadSpec, Spec};
