//! Agents: how they join, what they were admitted as, how their credentials are renewed, and how they are removed.

mod admission;
mod credential;
mod enroll;
mod list;
mod remove;
mod renew;
mod sealing;

pub use admission::{Bearer, Said, admit, narrowed};
pub use credential::renew_after_s;
pub use enroll::enroll;
pub use list::{AgentPage, AgentView, ListQuery, get, list};
pub use remove::{RemoveQuery, RemoveRequest, RemovedView, remove};
pub use renew::renew;
pub use sealing::offered_key;
