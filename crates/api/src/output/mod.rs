//! Output of runs: agents bring it, people read it, also while it grows.

mod bring;
mod read;
mod uploads;

pub use bring::{BringQuery, BroughtView, bring, no_room};
pub use read::{OutputQuery, read};
pub use uploads::Uploads;
