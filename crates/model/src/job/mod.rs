//! Jobs: what somebody asked for, once.

mod policy;
mod state;
mod status;

pub use policy::{BadPolicy, JobPolicy, OnLost};
pub use state::{Fact, JobState, Place, Refused, Step};
pub use status::{JobStatus, NotAStatus};
