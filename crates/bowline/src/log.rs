//! Where log lines go: to standard error, as JSON for machines, and for people on a terminal: time, level, message, fields.

mod access;
mod json;
mod writer;

use std::fmt;
use std::io::IsTerminal;

use anyhow::Context;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

pub use access::AccessLog;
use json::{JsonFields, JsonLines};
use writer::LogWriter;

/// Changes what is logged while the program runs.
#[derive(Debug)]
pub struct LogLevel {
    filter: reload::Handle<Targets, Registry>,
}

impl LogLevel {
    /// From now on this level or filter counts, and these requests get a line.
    pub fn set(&self, level: &str, access: AccessLog) -> anyhow::Result<()> {
        self.filter.reload(filter(level, access)?).context("the log level cannot be changed")
    }
}

/// By level and target only: a filter that looks at spans as well costs every request a lock.
fn filter(level: &str, access: AccessLog) -> anyhow::Result<Targets> {
    // A word alone would be taken for the name of a module, and silence everything else.
    let words = level.split(',').filter(|word| !word.contains(['=', '[']));
    for word in words.map(str::trim) {
        if word.parse::<LevelFilter>().is_err() {
            anyhow::bail!("log.level (LOG_LEVEL) `{word}` is none of off, error, warn, info, debug, trace");
        }
    }
    let filter: Targets = level.parse().with_context(|| format!("log.level (LOG_LEVEL) `{level}` is no filter"))?;
    // The AMQP library shows whole messages in its lines, and payloads are never in a log. What matters of it is in our
    // own. PostgreSQL's notices ("relation already exists") are about statements that are meant to find it so.
    let filter = filter.with_target("lapin", LevelFilter::OFF).with_target("tokio_postgres", LevelFilter::WARN);
    // A level that is quieter than the access log, or speaks of it, wins.
    if !level.contains(bowline_api::ACCESS_LOG_TARGET)
        && ["info", "debug", "trace"].iter().any(|word| level.contains(word))
    {
        return Ok(filter.with_target(bowline_api::ACCESS_LOG_TARGET, access.level()));
    }
    Ok(filter)
}

/// Starts logging at a level or filter.
pub fn start(level: &str, access: AccessLog) -> anyhow::Result<LogLevel> {
    let (filter, handle) = reload::Layer::new(filter(level, access)?);
    // A line that cannot be written is lost. To complain about it on the same standard error would be a panic, and a full
    // disk under a log file would end the work that the line was about.
    let lines = tracing_subscriber::fmt::layer().with_writer(LogWriter::start()?).log_internal_errors(false);
    let logs = tracing_subscriber::registry().with(filter);
    if std::io::stderr().is_terminal() {
        logs.with(lines.with_target(false).compact().with_timer(TimeOfDay)).init();
    } else {
        logs.with(lines.fmt_fields(JsonFields).event_format(JsonLines::new())).init();
    }
    Ok(LogLevel { filter: handle })
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
