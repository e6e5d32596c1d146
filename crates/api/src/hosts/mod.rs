//! Hosts: one endpoint, one file.

mod get;
mod list;
mod put;
mod remove;
mod view;

pub use get::{HostAnswer, get};
pub use list::{HostPage, ListQuery, list, meant, selector, snapshot};
pub use put::{PutAnswer, PutRequest, put};
pub use remove::{RemovedView, remove};
pub use view::{InventoryQuery, inventory_or_default};
