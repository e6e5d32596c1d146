//! How an event is shown: when, how bad, what, to whom, and what else it says.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::actor::ActorView;
use crate::output::text::cut;
use crate::output::time::clock_time;
use crate::output::{Cell, Column, Paint, Screen, Text};

/// What an event says about one thing is cut to this.
const DETAIL_CHARS_MAX: usize = 120;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct EventView {
    pub event_id: Text,
    ts: Text,
    severity: Text,
    #[serde(rename = "type")]
    kind: Text,
    message: Text,
    actor: ActorView,
    data: Option<Box<RawValue>>,
}

impl EventView {
    pub const COLUMNS: [Column; 5] = [
        Column::left("WHEN"),
        Column::left("SEVERITY").spare(),
        Column::left("TYPE"),
        Column::left("JOB").whole(),
        Column::left("MESSAGE"),
    ];

    pub fn row(screen: &Screen, event: &Self) -> Vec<Cell> {
        vec![
            screen.ago(&event.ts).into(),
            event.severity_cell(),
            (&event.kind).into(),
            event.job().into(),
            event.words().into(),
        ]
    }

    /// Of one job, the job need not be named in every line.
    pub const COLUMNS_OF_JOB: [Column; 4] =
        [Column::left("WHEN"), Column::left("SEVERITY"), Column::left("TYPE"), Column::left("MESSAGE")];

    pub fn row_of_job(screen: &Screen, event: &Self) -> Vec<Cell> {
        vec![screen.ago(&event.ts).into(), event.severity_cell(), (&event.kind).into(), event.words().into()]
    }

    /// One line of a running log.
    pub fn line(&self, screen: &Screen, with_job: bool) -> String {
        let color = screen.color();
        let job = if with_job { self.job() } else { String::new() };
        let job = if job.is_empty() { job } else { format!("  {job}") };
        format!(
            "{}  {}  {}{job}  {}",
            Paint::Quiet.on(&clock_time(&self.ts, screen.now()), color),
            Paint::of_severity(self.severity.as_str()).on(&format!("{:7}", self.severity), color),
            Paint::Strong.on(&format!("{:20}", self.kind), color),
            self.words(),
        )
    }

    fn severity_cell(&self) -> Cell {
        Cell::painted(&self.severity, Paint::of_severity(self.severity.as_str()))
    }

    fn data(&self) -> BTreeMap<String, Box<RawValue>> {
        self.data.as_ref().and_then(|data| serde_json::from_str(data.get()).ok()).unwrap_or_default()
    }

    fn job(&self) -> String {
        self.data().get("job_id").and_then(|id| scalar(id)).unwrap_or_default()
    }

    /// The message, and whatever plain values stand beside it.
    fn words(&self) -> String {
        let mut words = self.message.to_string();
        for (name, value) in self.data() {
            // Ids and numbers that only programs need; --json has them.
            if matches!(name.as_str(), "job_id" | "run_id" | "fence" | "seq" | "accepted") {
                continue;
            }
            if let Some(value) = scalar(&value) {
                let value = if name == "by" { self.actor.or(&Text::new(&value)).to_string() } else { value };
                let value = cut(&value, DETAIL_CHARS_MAX);
                let value = if value.contains(' ') { format!("\"{value}\"") } else { value };
                words.push_str(&format!(" {}={value}", Text::new(&name)));
            }
        }
        words
    }
}

/// The text of a value that is neither empty nor made of others.
fn scalar(value: &RawValue) -> Option<String> {
    if value.get().starts_with(['{', '[']) {
        return None;
    }
    serde_json::from_str::<Text>(value.get()).ok().filter(|text| !text.is_empty()).map(|text| text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_says_what_it_knows_in_one_clean_line() {
        let event: EventView = serde_json::from_str(
            r#"{"event_id":"e","ts":"2026-01-03T00:00:00Z","severity":"error","type":"job_failed","message":"Job\u001b failed",
                "data":{"job_id":"j","run_id":"r","attempt":2,"error":"no\nway","detail":{"deep":1},"none":null}}"#,
        )
        .unwrap();
        assert_eq!(event.words(), "Job failed attempt=2 error=\"no way\"");
        assert_eq!(event.job(), "j");
    }

    #[test]
    fn people_are_named() {
        let event = |actor: &str| {
            let json = format!(r#"{{"message":"Canceled","data":{{"by":"token:2h34"}}{actor}}}"#);
            serde_json::from_str::<EventView>(&json).unwrap().words()
        };
        assert_eq!(event(r#","actor":{"id":"token:2h34","name":"ann"}"#), "Canceled by=ann");
        assert_eq!(event(""), "Canceled by=token:2h34", "an older server knows the id only");
    }

    #[test]
    fn an_event_of_a_newer_server_is_shown_as_far_as_it_goes() {
        let event: EventView = serde_json::from_str(r#"{"type":"comet_seen","data":[1],"colour":"blue"}"#).unwrap();
        assert_eq!(event.words(), "");
        assert_eq!(event.kind.as_str(), "comet_seen");
    }
}
