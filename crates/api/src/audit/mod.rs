//! The audit trail: read here, written nowhere.

mod list;

pub use list::{AuditPage, ListQuery, list};
