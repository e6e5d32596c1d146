//! The fleet: which hosts there are, what may run on them, and running it.

mod inventories;
mod params;
mod resources;

pub use inventories::{Inventories, Snapshot};
pub use params::{BadParams, check_params, check_schema};
pub use resources::{PutError, Resources};
