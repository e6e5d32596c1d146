//! Triggers: what is started by every message of a queue. How a queue is read is not known here.

mod spec;

pub use spec::{OnRefused, QueueSource, TriggerSpec};
