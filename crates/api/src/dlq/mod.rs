//! Dead letters: one endpoint, one file.

mod close;
mod list;

pub use close::{CloseAnswer, CloseRequest, purge, replay};
pub use list::{DeadLetterPage, ListQuery, list};
