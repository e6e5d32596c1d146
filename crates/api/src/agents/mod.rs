//! Agents: how they join, and what their reserved labels mean.

mod enroll;
mod labels;
mod sealing;

pub use enroll::enroll;
pub use labels::labels_of;
pub use sealing::offered_key;
