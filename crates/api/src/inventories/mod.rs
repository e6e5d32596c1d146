//! Inventories: one endpoint, one file.

mod changes;
mod get;
mod list;
mod put;
mod select;

pub use get::{InventoryAnswer, get};
pub use list::{InventoryList, list};
pub use put::{PutQuery, PutRequest, PutView, put};
pub use select::{SelectAnswer, SelectRequest, select};
