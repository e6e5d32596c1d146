//! Jobs: what somebody asked for, once.

mod kind;
mod policy;
mod state;
mod status;

pub use kind::JobKind;
pub use policy::{BadPolicy, JobPolicy, OnLost};
pub use state::{Fact, JobState, Place, Refused, Step};
pub use status::{JobStatus, NotAStatus};
