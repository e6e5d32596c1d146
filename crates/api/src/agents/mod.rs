//! Agents: how they join, and what their reserved labels mean.

mod enroll;
mod labels;

pub use enroll::enroll;
pub use labels::labels_of;
