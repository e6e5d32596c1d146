//! Resources: one endpoint, one file.

mod activate;
mod apply;
mod delete;
mod diff;
mod get;
mod kinds;
mod list;
mod put;
mod rollback;
mod source;
mod spec;
mod validate;
mod versions;
mod view;

pub use activate::{ActivateRequest, ActivatedView, activate};
pub use apply::{AppliedView, ApplyRequest, apply};
pub use delete::{DeleteQuery, DeleteRequest, DeletedView, delete};
pub use diff::{DiffAnswer, DiffQuery, diff};
pub use get::{GetQuery, ResourceAnswer, get};
pub use kinds::{KindList, kinds};
pub use list::{ListQuery, ResourcePage, list};
pub use put::{PutRequest, StoredView, put};
pub use rollback::{RollbackRequest, rollback};
pub use spec::code as spec_code;
pub use validate::{ValidView, validate, validate_named};
pub use versions::{VersionPage, VersionsQuery, versions};
