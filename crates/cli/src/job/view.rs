//! A job and its runs, as the server shows them and as we do.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::actor::ActorView;
use crate::exit::Exit;
use crate::fleet::{CommandView, PinnedView};
use crate::output::json::readable;
use crate::output::text::cut;
use crate::output::time::between;
use crate::output::{Cell, Column, Facts, Paint, Screen, Text};
use crate::workers::labels;

/// Payloads and results are shown up to this many lines.
const JSON_LINES_MAX: usize = 40;

/// The answer to `GET /jobs/{id}`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct JobDetail {
    pub job: JobView,
    pub runs: Vec<RunView>,
    /// What a command says beside.
    pub command: Option<CommandView>,
    /// What a run of a workflow says beside.
    pub workflow: Option<crate::workflow::RunView>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct JobView {
    pub id: Text,
    pub number: Text,
    pub tenant_id: Text,
    #[serde(rename = "type")]
    pub task_type: Text,
    pub title: Text,
    pub actor: ActorView,
    pub lane: Text,
    pub priority: Text,
    pub status: Text,
    pub paused_for: Text,
    pub attempts: Text,
    pub max_attempts: Text,
    pub created_at: Text,
    pub updated_at: Text,
    pub finished_at: Text,
    pub run_at: Text,
    pub deadline_at: Text,
    pub payload: Option<Box<RawValue>>,
    pub result: Option<Box<RawValue>>,
    pub result_ref: Option<ResultRef>,
    pub error: Option<Box<RawValue>>,
    pub idempotency_key: Text,
    pub external_id: Text,
    pub correlation_id: Text,
    pub trace_id: Text,
    pub replay_of: Text,
    pub begun_by: Text,
    pub labels: Option<BTreeMap<String, Text>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RunView {
    pub attempt: Text,
    pub status: Text,
    pub worker_id: Text,
    pub claimed_at: Text,
    pub started_at: Text,
    pub finished_at: Text,
    pub error: Option<Box<RawValue>>,
    pub incomplete: Option<bool>,
}

/// A result that is too large to be shown with its job.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResultRef {
    pub bytes: Text,
}

impl JobView {
    /// What people call it. Older servers know only types.
    pub fn what(&self) -> &Text {
        if self.title.is_empty() { &self.task_type } else { &self.title }
    }

    /// How the job ended; `None` while it has not.
    pub fn end(&self) -> Option<Exit> {
        match self.status.as_str() {
            "success" | "succeeded" => Some(Exit::Success),
            "failed" | "timed_out" | "unreachable" | "dead" | "error" | "blocked" => Some(Exit::Refused),
            "canceled" => Some(Exit::Canceled),
            _ => None,
        }
    }

    /// The status; of a paused execution, what it waits for.
    pub fn status_word(&self) -> Text {
        match (self.status.as_str(), self.paused_for.as_str()) {
            ("paused", "sleep") => Text::new("sleeping"),
            ("paused", "approval") => Text::new("awaiting_approval"),
            ("paused", "event") => Text::new("awaiting_event"),
            ("paused", "debug") => Text::new("stepping"),
            _ => self.status.clone(),
        }
    }

    /// `2/4`
    pub fn tries(&self) -> String {
        if self.max_attempts.is_empty() {
            self.attempts.to_string()
        } else {
            format!("{}/{}", self.attempts, self.max_attempts)
        }
    }

    /// What the job is about, in one line.
    pub fn headline(&self, color: bool) -> String {
        let number = if self.number.is_empty() { String::new() } else { format!("#{} ", self.number) };
        let status = self.status_word();
        let status = Paint::of_status(status.as_str()).on(status.as_str(), color);
        format!("job {number}{}  {status}", Paint::Strong.on(self.what().as_str(), color))
    }

    /// What went wrong, in one line.
    pub fn fault(&self) -> String {
        fault(self.error.as_deref())
    }

    /// Where a result is that is too large to be shown.
    pub fn stored_result(&self) -> String {
        match &self.result_ref {
            Some(stored) => format!("{} bytes; `bowline job result {}` prints it", stored.bytes, self.id),
            None => String::new(),
        }
    }

    pub fn facts(&self, screen: &Screen, command: Option<&CommandView>) -> Facts {
        let lane = match self.priority.as_str() {
            "" | "0" => self.lane.to_string(),
            priority => format!("{} (priority {priority})", self.lane),
        };
        let finished = match (screen.ago(&self.finished_at), between(&self.created_at, &self.finished_at)) {
            (ago, took) if took.is_empty() => ago,
            (ago, took) => format!("{ago}, {took} after it was created"),
        };
        let due = if self.end().is_none() { screen.ago(&self.run_at) } else { String::new() };
        let json = |raw: &Option<Box<RawValue>>| {
            raw.as_ref().map(|raw| readable(raw.get(), JSON_LINES_MAX)).unwrap_or_default()
        };
        let pinned = command.and_then(|_| PinnedView::read(self.payload.as_deref()));
        // Of a command the payload is the command itself, and each host has its own attempts.
        let (attempts, payload) = match &pinned {
            Some(_) => (String::new(), String::new()),
            None => (self.tries().replace('/', " of "), json(&self.payload)),
        };
        let mut facts = Facts::new().with("id", &self.id);
        if let Some(pinned) = pinned {
            facts = pinned.facts(facts);
        }
        if let Some(command) = command {
            facts = command.facts(facts, screen, self.end().is_some());
        }
        facts
            .with("lane", lane)
            .with("attempts", attempts)
            .with("created", screen.ago(&self.created_at))
            .with("created by", &self.actor.name)
            .with("due", due)
            .with("deadline", screen.ago(&self.deadline_at))
            .with("finished", finished)
            .with("labels", labels(self.labels.as_ref()))
            .with("key", &self.idempotency_key)
            .with("external id", &self.external_id)
            .with("replay of", &self.replay_of)
            .with("trace", &self.trace_id)
            .with("correlation", &self.correlation_id)
            .painted("error", self.fault(), Paint::Bad)
            .lines("payload", &payload)
            .lines("result", &json(&self.result))
            .with("result", self.stored_result())
    }
}

impl RunView {
    pub const COLUMNS: [Column; 6] = [
        Column::right("RUN"),
        Column::left("STATUS"),
        Column::left("WORKER"),
        Column::left("CLAIMED"),
        Column::left("TOOK"),
        Column::left("ERROR"),
    ];

    pub fn row(&self, screen: &Screen) -> Vec<Cell> {
        let begun = if self.started_at.is_empty() { &self.claimed_at } else { &self.started_at };
        let took = if self.finished_at.is_empty() { "" } else { &between(begun, &self.finished_at) };
        let mut error = fault(self.error.as_deref());
        if self.incomplete == Some(true) {
            error = format!("{error} (some of its events are missing)").trim_start().to_owned();
        }
        vec![
            (&self.attempt).into(),
            Cell::status(&self.status),
            (&self.worker_id).into(),
            screen.ago(&self.claimed_at).into(),
            took.into(),
            Cell::painted(cut(&error, 300), Paint::Quiet),
        ]
    }
}

/// What went wrong, in one line, whether the server gives it as a text or as a class and a message.
pub fn fault(error: Option<&RawValue>) -> String {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Fault {
        class: Text,
        message: Text,
    }
    let Some(error) = error else { return String::new() };
    if !error.get().starts_with('{') {
        return serde_json::from_str::<Text>(error.get()).unwrap_or_default().to_string();
    }
    let Fault { class, message } = serde_json::from_str(error.get()).unwrap_or_default();
    match (class.as_str(), message.as_str()) {
        ("", message) => message.to_owned(),
        (class, "") => class.to_owned(),
        (class, message) => format!("{class}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_read_in_both_forms() {
        let read = |json: &str| fault(Some(&RawValue::from_string(json.to_owned()).unwrap()));
        assert_eq!(read(r#"{"class":"transient","message":"no\u001b route"}"#), "transient: no route");
        assert_eq!(read(r#"{"class":"transient"}"#), "transient");
        assert_eq!(read(r#""plain""#), "plain");
        assert_eq!(read("null"), "");
        assert_eq!(fault(None), "");
    }

    #[test]
    fn a_job_ends_in_one_of_five_words() {
        let end = |status: &str| JobView { status: Text::new(status), ..JobView::default() }.end();
        assert_eq!(end("success"), Some(Exit::Success));
        assert_eq!(["failed", "dead", "error"].map(end), [Some(Exit::Refused); 3]);
        assert_eq!(end("canceled"), Some(Exit::Canceled));
        assert_eq!(["queued", "running", "pending", "canceling", "paused"].map(end), [None; 5]);
    }
}
