//! Log lines as JSON, written field by field into the line.
//!
//! The formatter of the library builds a tree of each line's fields first. Every request has a span and a line in the access
//! log, so both are written here directly; all other lines are the library's.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::{self, Format, FormatEvent, FormatFields, Json, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// Lines of the log.
pub struct JsonLines(Format<Json>);

impl JsonLines {
    pub fn new() -> Self {
        Self(format::format().json().flatten_event(true))
    }
}

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let meta = event.metadata();
        if meta.target() != bowline_api::ACCESS_LOG_TARGET {
            return self.0.format_event(context, line, event);
        }
        line.write_str("{\"timestamp\":\"")?;
        SystemTime.format_time(&mut line)?;
        write!(line, "\",\"level\":\"{}\"", meta.level())?;
        let mut fields = Fields { line: &mut line, is_first: false, written: Ok(()) };
        event.record(&mut fields);
        fields.written?;
        writeln!(line, ",\"target\":\"{}\"}}", meta.target())
    }
}

/// The fields of spans.
pub struct JsonFields;

impl<'w> FormatFields<'w> for JsonFields {
    fn format_fields<R: RecordFields>(&self, mut line: Writer<'w>, fields: R) -> fmt::Result {
        line.write_char('{')?;
        let mut written = Fields { line: &mut line, is_first: true, written: Ok(()) };
        fields.record(&mut written);
        written.written?;
        line.write_char('}')
    }

    fn add_fields(&self, known: &'w mut FormattedFields<Self>, fields: &tracing::span::Record<'_>) -> fmt::Result {
        let end = known.fields.pop();
        debug_assert!(end.is_none_or(|end| end == '}'), "fields end with their bracket");
        let is_first = known.fields.len() <= 1;
        if known.fields.is_empty() {
            known.fields.push('{');
        }
        let mut line = known.as_writer();
        let mut written = Fields { line: &mut line, is_first, written: Ok(()) };
        fields.record(&mut written);
        written.written?;
        line.write_char('}')
    }
}

/// Writes one field after the other.
struct Fields<'a, 'w> {
    line: &'a mut Writer<'w>,
    is_first: bool,
    written: fmt::Result,
}

impl Fields<'_, '_> {
    fn add(&mut self, field: &Field, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        if self.written.is_ok() {
            self.written = self.try_add(field, value);
        }
    }

    fn try_add(&mut self, field: &Field, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) -> fmt::Result {
        if !std::mem::take(&mut self.is_first) {
            self.line.write_char(',')?;
        }
        // Names stand in our own code.
        self.line.write_char('"')?;
        self.line.write_str(field.name())?;
        self.line.write_str("\":")?;
        value(self.line)
    }
}

impl Visit for Fields<'_, '_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, |line| text(line, |text| text.write_str(value)));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, |line| write!(line, "{value}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, |line| write!(line, "{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, |line| write!(line, "{value}"));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, |line| if value.is_finite() { write!(line, "{value}") } else { line.write_str("null") });
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, |line| text(line, |text| write!(text, "{value:?}")));
    }
}

/// A text in quotation marks.
fn text(line: &mut Writer<'_>, write: impl FnOnce(&mut Escaped<'_, '_>) -> fmt::Result) -> fmt::Result {
    line.write_char('"')?;
    write(&mut Escaped(line))?;
    line.write_char('"')
}

/// Escapes what JSON does not allow in a text.
struct Escaped<'a, 'w>(&'a mut Writer<'w>);

impl Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
            self.0.write_str(&rest[..at])?;
            match rest.as_bytes()[at] {
                b'"' => self.0.write_str("\\\"")?,
                b'\\' => self.0.write_str("\\\\")?,
                b'\n' => self.0.write_str("\\n")?,
                control => write!(self.0, "\\u{control:04x}")?,
            }
            rest = &rest[at + 1..];
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::{Value, json};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("nothing panicked").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The lines that this logs.
    fn lines(log: impl FnOnce()) -> Vec<Value> {
        let kept = Kept::default();
        let writer = kept.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(move || writer.clone())
            .fmt_fields(JsonFields)
            .event_format(JsonLines::new())
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        let bytes = kept.0.lock().expect("nothing panicked").clone();
        let text = String::from_utf8(bytes).expect("lines are text");
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
    }

    #[test]
    fn an_access_line_is_json_whatever_is_in_it() {
        let odd = "a \"b\" \\ \n \u{1} ü \u{1f600}";
        let none: Option<&str> = None;
        let found = lines(|| {
            tracing::info!(
                target: bowline_api::ACCESS_LOG_TARGET,
                { http.path = odd, http.status = 200u16, ms = 1.5, bad = f64::NAN, yes = true, actor = %odd, none = none },
                "request"
            );
        });
        let line = &found[0];
        assert_eq!(line["message"], "request");
        assert_eq!((&line["http.path"], &line["actor"]), (&json!(odd), &json!(odd)));
        assert_eq!((&line["http.status"], &line["ms"], &line["yes"]), (&json!(200), &json!(1.5), &json!(true)));
        assert_eq!((&line["bad"], line.get("none")), (&Value::Null, None));
        assert_eq!((&line["level"], &line["target"]), (&json!("INFO"), &json!("bowline::access")));
        assert!(line["timestamp"].as_str().is_some_and(|at| at.ends_with('Z')), "{line}");
    }

    #[test]
    fn other_lines_show_the_fields_of_their_spans() {
        let found = lines(|| {
            let span = tracing::info_span!("request", request.id = %"a\"b", late = tracing::field::Empty);
            span.record("late", 7);
            span.in_scope(|| {
                let empty = tracing::info_span!("empty", late = tracing::field::Empty);
                empty.in_scope(|| {
                    empty.record("late", "x");
                    tracing::warn!(n = 1, "something happened");
                });
            });
        });
        assert_eq!(found[0]["message"], "something happened");
        assert_eq!(found[0]["spans"][0], json!({"name": "request", "request.id": "a\"b", "late": 7}));
        assert_eq!(found[0]["spans"][1], json!({"name": "empty", "late": "x"}));
    }
}
