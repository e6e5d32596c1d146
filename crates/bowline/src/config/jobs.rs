//! What holds for jobs that do not say so themselves.

use anyhow::ensure;
use bowline_cli::Span;
use bowline_model::JobPolicy;
use serde::Deserialize;

/// Defaults of jobs. (since 0.1)
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JobsConfig {
    /// How long a plain job may take before it fails, such as `1h`; a bare number is seconds. No limit unless set.
    pub timeout: Option<String>,
}

impl JobsConfig {
    pub fn check(&self) -> anyhow::Result<()> {
        let Some(text) = &self.timeout else { return Ok(()) };
        let in_range = self.deadline_ms().is_some_and(|ms| JobPolicy::DEADLINE_MS.contains(&ms));
        ensure!(in_range, "jobs.timeout (JOB_TIMEOUT) is `{text}`; it must be a duration between 1s and 30d");
        Ok(())
    }

    pub fn deadline_ms(&self) -> Option<u64> {
        let text = self.timeout.as_ref()?;
        match text.parse::<u64>() {
            Ok(seconds) => seconds.checked_mul(1_000),
            Err(_) => text.parse().ok().map(Span::as_millis),
        }
    }
}
