//! `apply`, `validate`, `diff`, `get`, `activate`, `rollback`, `delete`: configuration that people keep in files.

mod apply;
mod diff;
mod documents;
mod get;
mod order;
mod plan;
mod wrong;

pub use apply::{ApplyArgs, ValidateArgs, apply, validate};
pub use diff::{DiffArgs, diff};
pub use documents::paths;
pub use get::{GetArgs, get, list};
pub use order::{ActivateArgs, DeleteArgs, RollbackArgs, activate, delete, rollback};
