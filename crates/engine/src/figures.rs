//! How long work takes and how often it is tried again, by type, whoever did it.

use std::sync::Arc;

use bowline_model::{JobStatus, TaskType};
use bowline_store::Observer;
use bowline_supervise::Meters;
use bowline_supervise::meters::{EndLabels, TypeLabels};

/// Turns what the ledger stored into meters.
#[derive(Debug)]
pub struct Figures(Arc<Meters>);

impl Figures {
    pub fn of(meters: Arc<Meters>) -> Arc<dyn Observer> {
        Arc::new(Self(meters))
    }
}

impl Observer for Figures {
    fn attempt_ended(&self, task_type: &TaskType, job: JobStatus, age_ms: i64) {
        if job.is_terminal() {
            let label = EndLabels { r#type: task_type.to_string(), status: job.as_str() };
            self.0.jobs_ended.get_or_create(&label).inc();
        }
        let label = TypeLabels { r#type: task_type.to_string() };
        match job {
            JobStatus::Succeeded => self.0.job_millis.get_or_create(&label).observe(age_ms as f64),
            JobStatus::Pending | JobStatus::Queued => drop(self.0.retries.get_or_create(&label).inc()),
            _ => {}
        }
    }
}
