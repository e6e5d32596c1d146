//! Resources: configuration that people write, and of which the ledger keeps every version.

mod kind;

pub use kind::{NotAKind, ResourceKind};
