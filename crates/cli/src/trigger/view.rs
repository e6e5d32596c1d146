//! A trigger as the server shows it.

use serde::Deserialize;

use crate::actor::ActorView;
use crate::output::{Paint, Screen, Text};

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
pub struct TriggerView {
    pub name: Text,
    pub version: Text,
    pub active: bool,
    pub enabled: bool,
    pub description: Text,
    pub broker: Text,
    pub queue: Text,
    pub on_refused: Text,
    pub owner: ActorView,
    pub stopped: Text,
    pub here: HereView,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
pub struct HereView {
    pub reading_since: Text,
    pub delivered: u64,
    pub started: u64,
    pub replayed: u64,
    pub refused: u64,
    pub last_job_id: Text,
    pub last_error: Option<ErrorView>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
pub struct ErrorView {
    pub at: Text,
    pub message: Text,
}

impl TriggerView {
    /// Whether its queue is read, in words.
    pub fn reading(&self, screen: &Screen) -> (String, Paint) {
        match (self.active, self.enabled, self.here.reading_since.is_empty()) {
            (false, _, _) => ("none is active".to_owned(), Paint::Bad),
            (_, false, _) => ("disabled".to_owned(), Paint::Quiet),
            _ if !self.stopped.is_empty() => ("stopped".to_owned(), Paint::Bad),
            (_, _, true) => ("not read".to_owned(), Paint::Bad),
            (_, _, false) => (screen.ago(&self.here.reading_since), Paint::Plain),
        }
    }

    pub fn error(&self, screen: &Screen) -> String {
        if !self.stopped.is_empty() {
            return self.stopped.to_string();
        }
        let error = self.here.last_error.as_ref();
        error.map_or_else(String::new, |error| format!("{}: {}", screen.ago(&error.at), error.message))
    }
}
