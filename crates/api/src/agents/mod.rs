//! Agents: how they join, what they were admitted as, and how their credentials are renewed.

mod admission;
mod credential;
mod enroll;
mod renew;
mod sealing;

pub use admission::{Bearer, Said, admit};
pub use credential::renew_after_s;
pub use enroll::enroll;
pub use renew::renew;
pub use sealing::offered_key;
