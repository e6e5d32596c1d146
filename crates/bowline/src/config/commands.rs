//! What holds for commands on hosts whose type does not say so itself.

use anyhow::ensure;
use bowline_cli::Span;
use bowline_model::StartRetry;
use bowline_model::fleet::CommandRetries;
use serde::Deserialize;

/// Which attempts are made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetriedAttempts {
    /// Those that never started: the host could not be reached, or nothing could be started there.
    #[default]
    NotStarted,
    /// Those that ran and failed, or took too long, as well.
    Failed,
}

/// Defaults of commands on hosts. (since 0.1)
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CommandsConfig {
    /// Attempts on one host after the first.
    pub max_retries: u32,
    /// The first pause between two attempts, such as `500ms`; a bare number is seconds.
    pub base_backoff: String,
    /// The longest pause.
    pub max_backoff: String,
    pub retry: RetriedAttempts,
}

impl Default for CommandsConfig {
    fn default() -> Self {
        let StartRetry { max_retries, base_ms, max_backoff_ms } = StartRetry::default();
        let (base_backoff, max_backoff) = (format!("{base_ms}ms"), format!("{max_backoff_ms}ms"));
        Self { max_retries, base_backoff, max_backoff, retry: RetriedAttempts::default() }
    }
}

impl CommandsConfig {
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(self.max_retries <= 999, "commands.max_retries (EXEC_MAX_RETRIES) must be at most 999");
        for (name, text, most) in [
            ("commands.base_backoff (BASE_BACKOFF)", &self.base_backoff, "1d"),
            ("commands.max_backoff (MAX_BACKOFF)", &self.max_backoff, "7d"),
        ] {
            let in_range = millis(text).is_some_and(|ms| millis(most).is_some_and(|most| ms <= most));
            ensure!(in_range, "{name} is `{text}`; it must be a duration of at most {most}, such as 500ms");
        }
        Ok(())
    }

    pub fn retries(&self) -> CommandRetries {
        let unset = StartRetry::default();
        CommandRetries {
            not_started: StartRetry {
                max_retries: self.max_retries,
                base_ms: millis(&self.base_backoff).unwrap_or(unset.base_ms),
                max_backoff_ms: millis(&self.max_backoff).unwrap_or(unset.max_backoff_ms),
            },
            failed: self.retry == RetriedAttempts::Failed,
        }
    }
}

/// A duration, or a number of seconds, with decimals or without.
fn millis(text: &str) -> Option<u64> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..1e9).contains(&seconds) => Some((seconds * 1_000.0) as u64),
        Ok(_) => None,
        Err(_) => text.parse().ok().map(Span::as_millis),
    }
}
