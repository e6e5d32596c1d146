//! Figures: who wants to hear what was stored. Nothing depends on it.

use bowline_model::{JobStatus, TaskType};

/// Hears of what happened to jobs, after it is stored.
pub trait Observer: std::fmt::Debug + Send + Sync {
    /// An attempt ended, and its job stands here now: over, or waiting for another attempt. `age_ms` is since acceptance.
    fn attempt_ended(&self, task_type: &TaskType, job: JobStatus, age_ms: i64);
}
