//! What a log line is about: the span of a run names the run, its job and its host in whatever is logged while it is entered.

use bowline_model::{HostName, JobId, RunId};
use tracing::{Span, error_span};

use crate::fleet::shared::Fleet;

/// Of the highest level, so that a warning has it however little is logged.
pub(crate) fn run_span(run: RunId, job: JobId, host: &HostName) -> Span {
    error_span!("run", job.id = %job, run.id = %run, host.name = %host)
}

impl Fleet {
    /// The same for a run that has a directory here; for others its id alone.
    pub fn span_of(&self, run: RunId) -> Span {
        match self.runs.find(run) {
            Some(found) => run_span(run, found.manifest.command.unwrap_or(found.manifest.job), &found.manifest.host),
            None => error_span!("run", run.id = %run),
        }
    }
}
