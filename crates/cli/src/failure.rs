//! What can go wrong between a person and the server, and how it is told.
//!
//! Told means: the server's own sentence, its code and the request id that finds it in the server's log, and then a hint
//! where one helps. With `--json` the same is one JSON document, in the server's own error shape.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::exit::Exit;
use crate::output::json::one_line;
use crate::output::text::{cut, json_safe};
use crate::output::{Paint, Text};

/// Details longer than this are cut.
const DETAILS_CHARS_MAX: usize = 600;

/// Why a command could not do what it was asked to do.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error("cannot reach {server}: {cause}")]
    Unreachable { server: String, cause: String, hint: Option<String> },
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
    /// An answer, but none that a Bowline server gives.
    #[error("the answer of {server} was not understood: {cause}")]
    Strange { server: String, cause: String },
    /// Nothing was asked for, because it would have meant nobody.
    #[error("{selector:?} matches no host of the inventory {inventory}")]
    NoHosts { selector: String, inventory: String },
    /// Somebody was asked and did not say yes.
    #[error("nothing was done")]
    Declined,
    #[error("cannot write the output")]
    Output(#[source] std::io::Error),
}

/// The server said no.
#[derive(Debug, Clone, Default)]
pub struct Refusal {
    pub status: u16,
    pub code: Text,
    pub message: Text,
    pub details: Option<String>,
    pub request_id: Text,
    /// Seconds, from `Retry-After`.
    pub retry_after: Option<u64>,
    pub hint: Option<String>,
    /// The parts of the path that was asked for.
    pub asked: Vec<String>,
    /// The body, if it was JSON.
    pub body: Option<String>,
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorPart,
    #[serde(default)]
    request_id: Text,
}

/// An error as the server writes it, alone or as the answer to one item of a batch.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ErrorPart {
    #[serde(default)]
    pub code: Text,
    #[serde(default)]
    pub message: Text,
    #[serde(default)]
    pub details: Option<Box<RawValue>>,
}

impl Refusal {
    /// Reads an answer that is no success. It may come from anything between here and the server, so it may be anything.
    pub fn read(status: u16, retry_after: Option<u64>, body: &str) -> Self {
        let mut refusal = match serde_json::from_str::<ErrorBody>(body) {
            Ok(ErrorBody { error, request_id }) => Self {
                code: error.code,
                message: error.message,
                details: error
                    .details
                    .map(|d| d.get().to_owned())
                    .filter(|d| !matches!(d.as_str(), "null" | "{}" | "[]")),
                request_id,
                body: Some(body.to_owned()),
                ..Self::default()
            },
            Err(_) => Self::default(),
        };
        if refusal.message.is_empty() {
            let words = cut(Text::new(body.trim()).as_str(), 200);
            let words = if words.is_empty() { String::new() } else { format!(": {words}") };
            refusal.message = Text::new(&format!("the server answered {status}{words}"));
        }
        Self { status, retry_after, ..refusal }
    }
}

impl Failure {
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Unreachable { .. } => Exit::Unreachable,
            Self::Refused(_) | Self::Strange { .. } | Self::NoHosts { .. } | Self::Declined => Exit::Refused,
            // Whoever read our output has seen enough; that is no failure.
            Self::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Exit::Success,
            Self::Output(_) => Exit::Refused,
        }
    }

    /// Whether there is anybody to tell.
    pub fn is_silent(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable { hint, .. } => hint.clone(),
            Self::Refused(refusal) => refusal.hint.clone(),
            Self::Strange { .. } => Some("is this really a Bowline server? Check --server or BOWLINE_URL".to_owned()),
            Self::NoHosts { .. } => {
                Some("`bowline hosts list` shows which hosts there are, and their labels".to_owned())
            }
            Self::Usage(_) | Self::Declined | Self::Output(_) => None,
        }
    }

    /// For people, in several lines.
    pub fn explain(&self, color: bool) -> String {
        // Files may have several errors, a line each.
        let message = self.to_string();
        let mut out: String =
            message.lines().map(|line| format!("{} {}\n", Paint::Bad.on("error:", color), Text::new(line))).collect();
        if let Self::Output(source) = self {
            out = format!("{} {self}: {}\n", Paint::Bad.on("error:", color), Text::new(&source.to_string()));
        }
        let quiet = |text: String| Paint::Quiet.on(&text, color);
        if let Self::Refused(refusal) = self {
            let mut about = vec![format!("status {}", refusal.status)];
            if !refusal.code.is_empty() {
                about.insert(0, format!("code {}", refusal.code));
            }
            if !refusal.request_id.is_empty() {
                about.push(format!("request {}", refusal.request_id));
            }
            out.push_str(&format!("  {}\n", quiet(about.join(", "))));
            if let Some(details) = &refusal.details {
                let details = cut(Text::new(&one_line(details)).as_str(), DETAILS_CHARS_MAX);
                out.push_str(&format!("  {}\n", quiet(format!("details {details}"))));
            }
        }
        if let Some(hint) = self.hint() {
            out.push_str(&format!("hint: {}\n", Text::new(&hint)));
        }
        out
    }

    /// For programs: the server's own document, or one in its shape for what the server knows nothing about.
    pub fn as_json(&self) -> String {
        if let Self::Refused(refusal) = self
            && let Some(body) = &refusal.body
        {
            return json_safe(body.trim_end());
        }
        let code = match self {
            Self::Usage(_) => "CLIENT_USAGE",
            Self::Unreachable { .. } => "CLIENT_UNREACHABLE",
            Self::Refused(_) | Self::Strange { .. } => "CLIENT_STRANGE_ANSWER",
            Self::NoHosts { .. } => "CLIENT_NO_HOSTS",
            Self::Declined => "CLIENT_DECLINED",
            Self::Output(_) => "CLIENT_OUTPUT",
        };
        let error =
            serde_json::json!({ "code": code, "message": self.to_string(), "details": { "hint": self.hint() } });
        json_safe(&serde_json::json!({ "error": error }).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_words_come_first_and_the_hint_last() {
        let body = r#"{"error":{"code":"JOB_NOT_FOUND","message":"no such\u001b[2J job","details":{"id":"x"}},"request_id":"r1","trace_id":"t"}"#;
        let refusal = Refusal { hint: Some("look elsewhere".into()), ..Refusal::read(404, None, body) };
        let failure = Failure::Refused(Box::new(refusal));
        assert_eq!(
            failure.explain(false),
            "error: no such[2J job\n  code JOB_NOT_FOUND, status 404, request r1\n  details {\"id\": \"x\"}\nhint: look elsewhere\n"
        );
        assert_eq!(failure.as_json(), body);
        assert_eq!(failure.exit(), Exit::Refused);
    }

    #[test]
    fn an_answer_from_something_else_is_told_as_it_is() {
        let refusal = Refusal::read(502, None, "<html>\n\u{1b}bad gateway</html>");
        assert_eq!(refusal.message.as_str(), "the server answered 502: <html> bad gateway</html>");
        assert_eq!(Refusal::read(500, None, "").message.as_str(), "the server answered 500");
        let failure = Failure::Refused(Box::new(refusal));
        assert!(failure.as_json().starts_with("{\"error\":{\"code\":\"CLIENT_STRANGE_ANSWER\""));
    }

    #[test]
    fn a_reader_that_left_is_no_failure() {
        let failure = Failure::Output(std::io::ErrorKind::BrokenPipe.into());
        assert!(failure.is_silent());
        assert_eq!(failure.exit(), Exit::Success);
    }
}
