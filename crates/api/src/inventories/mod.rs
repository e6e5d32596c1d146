//! Inventories: one endpoint, one file.

mod changes;
mod export;
mod get;
mod import;
mod list;
mod put;
mod select;

pub use export::{ExportQuery, export};
pub use get::{InventoryAnswer, get};
pub use import::{ImportQuery, import};
pub use list::{InventoryList, list};
pub use put::{PutQuery, PutRequest, PutView, check_count, check_hosts, circle, inventory_put, put};
pub use select::{SelectAnswer, SelectRequest, select};
