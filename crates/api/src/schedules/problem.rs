//! Why nothing was started, as callers hear it.

use bowline_engine::{StartError, TriggerError};
use serde_json::json;

use crate::flows::bad_definition;
use crate::jobs::{key_conflict, misfit};
use crate::problem::Problem;

impl From<StartError> for Problem {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Bad(bad) => misfit(bad),
            StartError::Command(error) => error.into(),
            StartError::Workflow(error) => bad_definition("workflow", error),
            StartError::Patch(field) => Self::validation(&error).with(json!({"field": field})),
            StartError::Key { key } => key_conflict(&key),
            StartError::Store(error) => error.into(),
        }
    }
}

impl From<TriggerError> for Problem {
    fn from(error: TriggerError) -> Self {
        match error {
            TriggerError::NotFound => no_schedule(),
            TriggerError::NotActive => Self::conflict("SCHEDULE_NOT_ACTIVE", error),
            TriggerError::Busy(job) => Self::conflict("SCHEDULE_BUSY", &error).with(json!({"job_id": job})),
            TriggerError::Overtaken => Self::conflict("RESOURCE_OVERTAKEN", error),
            TriggerError::Scope(_) => Self::forbidden(error),
            TriggerError::Start(error) => error.into(),
        }
    }
}

pub fn no_schedule() -> Problem {
    Problem::not_found("SCHEDULE_NOT_FOUND", "schedule")
}
