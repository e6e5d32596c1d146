//! What `GET /jobs/{id}` says of a command beside the job.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::counts::{HostCounts, hosts};
use crate::actor::ActorView;
use crate::output::json::readable;
use crate::output::time::span;
use crate::output::{Facts, Paint, Screen, Text};
use crate::run::words;

/// Parameters and scripts are shown up to this many lines.
const LINES_MAX: usize = 40;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct CommandView {
    pub command: Text,
    pub inventory: Text,
    pub selector: Text,
    pub lock: Text,
    pub rollout: RolloutView,
    pub deadline_ms: Option<u64>,
    pub hosts: HostCounts,
    pub stopped: Text,
    pub approval: Option<ApprovalView>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RolloutView {
    pub canary: Text,
    pub serial: Text,
    pub max_failures: Text,
}

impl RolloutView {
    /// `2 hosts first, then 10% at a time, stops when more than 5% failed`
    fn words(&self) -> String {
        let share = |text: &Text| match text.as_str() {
            "1" => "1 host".to_owned(),
            percent if percent.ends_with('%') => percent.to_owned(),
            number => format!("{number} hosts"),
        };
        let mut parts = Vec::new();
        if !self.canary.is_empty() {
            parts.push(format!("{} first", share(&self.canary)));
        }
        if !self.serial.is_empty() {
            let then = if parts.is_empty() { "" } else { "then " };
            parts.push(format!("{then}{} at a time", share(&self.serial)));
        }
        if !self.max_failures.is_empty() {
            parts.push(format!("stops when more than {} failed", share(&self.max_failures)));
        }
        parts.join(", ")
    }
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub struct ApprovalView {
    pub state: Text,
    pub hash: Text,
    pub quorum: u64,
    pub four_eyes: bool,
    pub requested_by: Text,
    pub requester: ActorView,
    pub expires_at: Text,
    pub votes: Vec<VoteView>,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub struct VoteView {
    pub by: Text,
    pub actor: ActorView,
    pub approved: bool,
    pub reason: Text,
    pub at: Text,
}

impl ApprovalView {
    pub fn is_open(&self) -> bool {
        self.state.as_str() == "required"
    }

    pub fn yes(&self) -> u64 {
        self.votes.iter().filter(|vote| vote.approved).count() as u64
    }

    /// `required: 1 of 2 said yes, expires in 23h`
    pub fn words(&self, screen: &Screen) -> String {
        if !self.is_open() {
            return self.state.to_string();
        }
        let mut words = format!("{}: {} of {} approved", self.state, self.yes(), self.quorum);
        if self.four_eyes {
            words.push_str(", the requester cannot");
        }
        if !self.expires_at.is_empty() {
            words.push_str(&format!(", expires {}", screen.ago(&self.expires_at)));
        }
        words
    }

    /// The votes, a line for each.
    pub fn vote_lines(&self, screen: &Screen) -> String {
        let lines = self.votes.iter().map(|vote| {
            let word = if vote.approved { "yes" } else { "no" };
            let reason = if vote.reason.is_empty() { String::new() } else { format!(": {}", vote.reason) };
            format!("{word} by {} {}{reason}", vote.actor.or(&vote.by), screen.ago(&vote.at))
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl CommandView {
    /// Where it runs: `the inventory main, role=web`.
    fn place(&self) -> String {
        if self.selector.is_empty() {
            format!("inventory {}, by name", self.inventory)
        } else {
            format!("inventory {}, {}", self.inventory, self.selector)
        }
    }

    /// How far it has come: `40 hosts: 11 ok, 1 failed, 28 to come`.
    pub fn progress(&self, over: bool, color: bool) -> String {
        let words = self.hosts.words(over, color);
        let apart = if words.is_empty() { "" } else { ": " };
        format!("{}{apart}{words}", hosts(self.hosts.total))
    }

    /// Adds what is known about the command to the facts about its job.
    pub fn facts(&self, facts: Facts, screen: &Screen, over: bool) -> Facts {
        let deadline = self.deadline_ms.map(|ms| span(i64::try_from(ms).unwrap_or(i64::MAX))).unwrap_or_default();
        let (approval, votes) = match &self.approval {
            Some(approval) => (approval.words(screen), approval.vote_lines(screen)),
            None => Default::default(),
        };
        facts
            .with("where", self.place())
            .with("hosts", self.progress(over, false))
            .with("rollout", self.rollout.words())
            .with("lock", &self.lock)
            .with("deadline", deadline)
            .painted("stopped", &self.stopped, Paint::Bad)
            .with("approval", approval)
            .lines("votes", &votes)
    }
}

/// What is to run: the payload of the job.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PinnedView {
    name: Text,
    version: Text,
    spec: SpecView,
    params: BTreeMap<String, Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SpecView {
    argv: Vec<String>,
    script: Option<String>,
    env: BTreeMap<String, Text>,
    secrets: BTreeMap<String, Text>,
    cwd: Text,
    timeout_ms: Option<i64>,
    idempotent: bool,
}

impl PinnedView {
    pub fn read(payload: Option<&RawValue>) -> Option<Self> {
        serde_json::from_str(payload?.get()).ok()
    }

    /// `restart-nginx, version 3`, or `ad-hoc`.
    pub fn title(&self) -> String {
        match (self.name.as_str(), self.version.as_str()) {
            ("", _) => "ad-hoc".to_owned(),
            (name, "") => name.to_owned(),
            (name, version) => format!("{name}, version {version}"),
        }
    }

    /// Adds exactly what will run to the facts.
    pub fn facts(&self, facts: Facts) -> Facts {
        let params = (!self.params.is_empty())
            .then(|| serde_json::to_string(&self.params).map(|json| readable(&json, LINES_MAX)).unwrap_or_default());
        let pairs = |map: &BTreeMap<String, Text>, between: &str| {
            map.iter()
                .map(|(name, value)| format!("{}{between}{value}", Text::new(name)))
                .collect::<Vec<_>>()
                .join("\n")
        };
        let script = self.spec.script.as_deref().unwrap_or_default();
        let shown: Vec<&str> = script.lines().take(LINES_MAX).collect();
        let more = script.lines().count().saturating_sub(shown.len());
        let more = if more > 0 { format!("\n… {more} more lines; --json shows them all") } else { String::new() };
        facts
            .with("command", self.title())
            .with("runs", words::join(&self.spec.argv))
            .lines("script", &format!("{}{more}", shown.join("\n")))
            .lines("params", &params.unwrap_or_default())
            .lines("env", &pairs(&self.spec.env, "="))
            .lines("secrets", &pairs(&self.spec.secrets, " from "))
            .with("cwd", &self.spec.cwd)
            .with("timeout", self.spec.timeout_ms.map(|ms| format!("{} on each host", span(ms))).unwrap_or_default())
            .with("idempotent", if self.spec.idempotent { "yes: tried again if nobody knows how it ended" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollout_is_told_in_words() {
        let rollout = |json: &str| serde_json::from_str::<RolloutView>(json).unwrap().words();
        assert_eq!(
            rollout(r#"{"canary":2,"serial":"10%","max_failures":1}"#),
            "2 hosts first, then 10% at a time, stops when more than 1 host failed"
        );
        assert_eq!(rollout(r#"{"serial":50}"#), "50 hosts at a time");
        assert_eq!(rollout("{}"), "");
    }

    #[test]
    fn what_will_run_is_shown_word_by_word() {
        let pinned = r#"{"name":"greet","version":3,"spec":{"argv":["echo","a b","{{ params.x }}"],"timeout_ms":900000,
            "env":{"A":"x\u001b"},"secrets":{"T":"key"}},"params":{"x":1.10}}"#;
        let pinned = PinnedView::read(Some(&RawValue::from_string(pinned.to_owned()).unwrap())).unwrap();
        insta::assert_snapshot!(pinned.facts(Facts::new()).render(false), @r#"
        command  greet, version 3
        runs     echo 'a b' '{{ params.x }}'
        params   {"x": 1.10}
        env      A=x
        secrets  T from key
        timeout  15m 0s on each host
        "#);
    }
}
