//! Colours, and what they mean. One place, so that the same word has the same colour everywhere.

/// How something looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Paint {
    #[default]
    Plain,
    /// It went well.
    Good,
    /// It went wrong.
    Bad,
    /// Something is happening.
    Busy,
    /// Nothing is happening, or it matters less.
    Quiet,
    /// Titles.
    Strong,
}

impl Paint {
    const fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Good => Some("32"),
            Self::Bad => Some("31"),
            Self::Busy => Some("33"),
            Self::Quiet => Some("2"),
            Self::Strong => Some("1"),
        }
    }

    /// The text in this colour, if colours are wanted.
    pub fn on(self, text: &str, color: bool) -> String {
        match self.code() {
            Some(code) if color && !text.is_empty() => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            _ => text.to_owned(),
        }
    }

    /// The colour of a status, whether a job's, a run's, a dead letter's or an outcome.
    pub fn of_status(status: &str) -> Self {
        match status {
            "success" | "succeeded" | "replayed" | "retried" | "corrected" => Self::Good,
            "failed" | "dead" | "error" | "lost" | "not_found" | "refused" | "open" | "timed_out" | "unreachable"
            | "blocked" => Self::Bad,
            "running" | "canceling" | "leased" | "claimed" | "started" | "paused" | "draining" | "stepping" => {
                Self::Busy
            }
            "pending" | "scheduled" | "canceled" | "purged" | "already_closed" | "returned" | "awaiting_approval"
            | "awaiting_event" | "sleeping" => Self::Quiet,
            _ => Self::Plain,
        }
    }

    /// The colour of an event's severity.
    pub fn of_severity(severity: &str) -> Self {
        match severity {
            "error" | "critical" => Self::Bad,
            "warning" | "warn" => Self::Busy,
            "debug" => Self::Quiet,
            _ => Self::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_appear_only_where_they_are_wanted() {
        assert_eq!(Paint::Good.on("ok", true), "\u{1b}[32mok\u{1b}[0m");
        assert_eq!(Paint::Good.on("ok", false), "ok");
        assert_eq!(Paint::Plain.on("ok", true), "ok");
        assert_eq!(Paint::Bad.on("", true), "");
    }

    #[test]
    fn both_words_for_success_are_green() {
        assert_eq!(Paint::of_status("success"), Paint::of_status("succeeded"));
        assert_eq!(Paint::of_status("something new"), Paint::Plain);
    }
}
