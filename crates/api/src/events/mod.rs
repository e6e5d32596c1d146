//! The event stream: one endpoint, one file.

mod filter;
mod list;
mod reader;
mod socket;
mod stream;

pub use list::{EventList, ListQuery, Order, list};
pub use reader::StreamQuery;
pub use socket::{socket, with_bearer};
pub use stream::stream;
