//! One host of a command.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::counts::ENDED;
use crate::actor::ActorView;
use crate::job::fault;
use crate::output::text::cut;
use crate::output::time::between;
use crate::output::{Cell, Column, Paint, Screen, Text};

/// Errors longer than this are cut.
const ERROR_CHARS_MAX: usize = 300;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct UnitView {
    pub host: Text,
    pub status: Text,
    pub attempts: Text,
    pub exit_code: Text,
    pub error: Option<Box<RawValue>>,
    pub started_at: Text,
    pub finished_at: Text,
    pub retry_at: Text,
    pub waits_for_host: bool,
    pub blocked: Option<BlockedView>,
}

/// What kept it from running.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct BlockedView {
    block_id: Text,
    reason: Text,
    by: Text,
    actor: ActorView,
    expires_at: Text,
}

impl UnitView {
    pub const COLUMNS: [Column; 6] = [
        Column::left("HOST").whole(),
        Column::left("STATUS"),
        Column::right("EXIT"),
        Column::right("TRIES").spare(),
        Column::right("TOOK"),
        Column::left("WHAT"),
    ];

    pub fn row(screen: &Screen, unit: &Self) -> Vec<Cell> {
        let begun = unit.attempts.as_str() != "0";
        let status = if !begun && unit.status.as_str() == "canceled" {
            Cell::painted("not begun", Paint::Quiet)
        } else {
            Cell::status(&unit.status)
        };
        let took = if unit.finished_at.is_empty() { "" } else { &between(&unit.started_at, &unit.finished_at) };
        vec![
            (&unit.host).into(),
            status,
            (&unit.exit_code).into(),
            (&unit.attempts).into(),
            took.into(),
            Cell::painted(unit.what(screen), Paint::Quiet),
        ]
    }

    /// Nothing more will happen there.
    pub fn has_ended(&self) -> bool {
        ENDED.contains(&self.status.as_str())
    }

    /// What is to be said about it beyond its status.
    fn what(&self, screen: &Screen) -> String {
        if self.waits_for_host {
            return "waits for its host, which is busy".to_owned();
        }
        if let Some(BlockedView { block_id, reason, by, actor, expires_at }) = &self.blocked {
            let by = actor.or(by);
            let until =
                if expires_at.is_empty() { String::new() } else { format!(", until {}", screen.ago(expires_at)) };
            return cut(&format!("{reason} (block {block_id} by {by}{until})"), ERROR_CHARS_MAX);
        }
        let fault = fault(self.error.as_deref());
        match self.status.as_str() {
            "success" => String::new(),
            "pending" if !self.retry_at.is_empty() => {
                let after = if fault.is_empty() { String::new() } else { format!(" after {fault}") };
                cut(&format!("again {}{after}", screen.ago(&self.retry_at)), ERROR_CHARS_MAX)
            }
            _ if says_only_exit(&fault, self.exit_code.as_str()) => String::new(),
            _ => cut(&fault, ERROR_CHARS_MAX),
        }
    }

    /// How it went wrong, in one line: `web3 failed, exit 2: permanent: no such unit`.
    pub fn complaint(&self) -> String {
        let word = match self.status.as_str() {
            "dead" => "failed",
            "timed_out" => "timed out",
            "error" => "lost",
            other => other,
        };
        let mut line = format!("{} {word}", self.host);
        if !self.exit_code.is_empty() {
            line.push_str(&format!(", exit {}", self.exit_code));
        }
        if let Some(rule) = &self.blocked {
            line.push_str(&format!(": {}", cut(rule.reason.as_str(), ERROR_CHARS_MAX)));
        }
        let fault = fault(self.error.as_deref());
        // `exit: exit code 126` says once more what was just said.
        if !fault.is_empty() && !says_only_exit(&fault, self.exit_code.as_str()) {
            line.push_str(&format!(": {}", cut(&fault, ERROR_CHARS_MAX)));
        }
        line
    }
}

/// Whether an error says nothing but the exit code, whatever its class: `exit: exit code 2`.
fn says_only_exit(fault: &str, exit_code: &str) -> bool {
    !exit_code.is_empty() && fault.rsplit(": ").next() == Some(format!("exit code {exit_code}").as_str())
}
