//! Resources: configuration that people write, and of which the ledger keeps every version.

mod checks;
mod diff;
mod kind;
mod spec;

pub use checks::Checks;
pub use diff::{Change, changes_between, summary_of_changes};
pub use kind::{NotAKind, ResourceKind};
pub use spec::{BadSpec, Spec};
