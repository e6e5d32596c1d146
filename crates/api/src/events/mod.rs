//! The event stream: one endpoint, one file.

mod filter;
mod list;
mod stream;

pub use filter::Wanted;
pub use list::{EventList, ListQuery, Order, list};
pub use stream::stream;
