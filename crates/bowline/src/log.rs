//! Where log lines go: to standard error, as JSON for machines, and for people on a terminal: time, level, message, fields.

mod access;
mod writer;

use std::fmt;
use std::io::IsTerminal;

use anyhow::Context;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{FmtSpan, Writer};
use tracing_subscriber::fmt::time::FormatTime;

pub use access::AccessLog;
use writer::LogWriter;

/// Changes what is logged while the program runs.
pub struct LogLevel {
    change: Box<dyn Fn(EnvFilter) -> anyhow::Result<()> + Send + Sync>,
}

impl fmt::Debug for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogLevel")
    }
}

impl LogLevel {
    /// From now on this level or filter counts, and these requests get a line.
    pub fn set(&self, level: &str, access: AccessLog) -> anyhow::Result<()> {
        (self.change)(filter(level, access)?)
    }
}

fn filter(level: &str, access: AccessLog) -> anyhow::Result<EnvFilter> {
    // A word alone would be taken for the name of a module, and silence everything else.
    let words = level.split(',').filter(|word| !word.contains(['=', '[']));
    for word in words.map(str::trim) {
        if word.parse::<tracing::level_filters::LevelFilter>().is_err() {
            anyhow::bail!("log.level (LOG_LEVEL) `{word}` is none of off, error, warn, info, debug, trace");
        }
    }
    let filter = EnvFilter::try_new(level).with_context(|| format!("log.level (LOG_LEVEL) `{level}` is no filter"))?;
    // The AMQP library shows whole messages in its lines, and payloads are never in a log. What matters of it is in our
    // own. PostgreSQL's notices ("relation already exists") are about statements that are meant to find it so.
    let mut quiet = vec!["lapin=off".to_owned(), "tokio_postgres=warn".to_owned()];
    // A level that is quieter than the access log, or speaks of it, wins.
    if !level.contains(bowline_api::ACCESS_LOG_TARGET)
        && ["info", "debug", "trace"].iter().any(|word| level.contains(word))
    {
        quiet.push(access.directive());
    }
    quiet.into_iter().try_fold(filter, |filter, directive| {
        Ok(filter.add_directive(directive.parse().context("a filter of our own")?))
    })
}

/// Starts logging at a level or filter.
pub fn start(level: &str, access: AccessLog) -> anyhow::Result<LogLevel> {
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter(level, access)?)
        .with_writer(LogWriter::start()?)
        .with_span_events(FmtSpan::NONE)
        // A line that cannot be written is lost. To complain about it on the same standard error would be a panic, and a
        // full disk under a log file would end the work that the line was about.
        .log_internal_errors(false);
    let change: Box<dyn Fn(EnvFilter) -> anyhow::Result<()> + Send + Sync> = if std::io::stderr().is_terminal() {
        let logs = logs.with_target(false).compact().with_timer(TimeOfDay).with_filter_reloading();
        let handle = logs.reload_handle();
        logs.init();
        Box::new(move |filter| handle.reload(filter).context("the log level cannot be changed"))
    } else {
        let logs = logs.json().flatten_event(true).with_filter_reloading();
        let handle = logs.reload_handle();
        logs.init();
        Box::new(move |filter| handle.reload(filter).context("the log level cannot be changed"))
    };
    Ok(LogLevel { change })
}

/// `14:03:07.123`, in the time zone of the terminal: whoever looks knows which day it is.
struct TimeOfDay;

impl FormatTime for TimeOfDay {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        write!(w, "{}", jiff::Zoned::now().strftime("%H:%M:%S%.3f"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_a_word_or_a_filter() {
        for good in ["info", "warn,bowline_engine=debug", "off"] {
            assert!(filter(good, AccessLog::Auto).is_ok(), "{good}");
        }
        let error = filter("loud", AccessLog::Auto).expect_err("no level").to_string();
        assert!(error.contains("`loud` is none of off, error, warn, info, debug, trace"), "{error}");
    }
}
