//! Tokens: one endpoint, one file.

mod create;
mod list;
mod revoke;

pub use create::{CreateRequest, CreatedView, create};
pub use list::{ListQuery, TokenList, list};
pub use revoke::{RevokeQuery, RevokedView, revoke};
