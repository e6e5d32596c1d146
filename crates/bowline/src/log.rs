//! Where log lines go: to standard error, as JSON for machines and as text on a terminal.

use std::io::IsTerminal;

use anyhow::Context;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// Starts logging at a level or filter.
pub fn start(level: &str) -> anyhow::Result<()> {
    // A word alone would be taken for the name of a module, and silence everything else.
    let words = level.split(',').filter(|word| !word.contains(['=', '[']));
    for word in words.map(str::trim) {
        if word.parse::<tracing::level_filters::LevelFilter>().is_err() {
            anyhow::bail!("log.level (LOG_LEVEL) `{word}` is none of off, error, warn, info, debug, trace");
        }
    }
    let filter = EnvFilter::try_new(level).with_context(|| format!("log.level (LOG_LEVEL) `{level}` is no filter"))?;
    // The AMQP library shows whole messages in its lines, and payloads are never in a log. What matters of it is in our own.
    let filter = filter.add_directive("lapin=off".parse().context("a filter of our own")?);
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_span_events(FmtSpan::NONE)
        // A line that cannot be written is lost. To complain about it on the same standard error would be a panic, and a
        // full disk under a log file would end the work that the line was about.
        .log_internal_errors(false);
    if std::io::stderr().is_terminal() {
        logs.with_target(false).compact().init();
    } else {
        logs.json().flatten_event(true).init();
    }
    Ok(())
}
