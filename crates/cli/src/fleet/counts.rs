//! How many hosts stand where, in a few words.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::output::Paint;
use crate::output::time::thousands;

/// The server's words for where a host stands, and the one we say for them. Whatever is not here is `other`.
const WORDS: [(&str, Paint, &[&str]); 11] = [
    ("ok", Paint::Good, &["success", "succeeded"]),
    ("failed", Paint::Bad, &["failed", "dead"]),
    ("timed out", Paint::Bad, &["timed_out"]),
    ("unreachable", Paint::Bad, &["unreachable"]),
    ("lost", Paint::Bad, &["error"]),
    ("blocked", Paint::Bad, &["blocked"]),
    ("canceled", Paint::Quiet, &["canceled"]),
    ("running", Paint::Busy, &["running"]),
    ("stopping", Paint::Busy, &["canceling"]),
    ("waiting", Paint::Plain, &["queued", "pending", "paused"]),
    ("to come", Paint::Quiet, &["new"]),
];

/// Where a host has ended.
pub const ENDED: [&str; 9] =
    ["success", "succeeded", "failed", "timed_out", "unreachable", "dead", "error", "blocked", "canceled"];

/// The hosts of a command, counted by where they stand.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub struct HostCounts {
    pub total: u64,
    pub begun: u64,
    pub by_status: BTreeMap<String, u64>,
}

impl HostCounts {
    pub fn of(&self, statuses: &[&str]) -> u64 {
        statuses.iter().filter_map(|status| self.by_status.get(*status)).sum()
    }

    pub fn succeeded(&self) -> u64 {
        self.of(&["success", "succeeded"])
    }

    /// Hosts where it is over, one way or the other.
    pub fn ended(&self) -> u64 {
        self.of(&ENDED)
    }

    /// `11 ok, 1 failed, 25 to come`; what is not there is not said. `over` is how it reads when nothing more will come.
    pub fn words(&self, over: bool, color: bool) -> String {
        let mut parts = Vec::new();
        let mut known = 0;
        for (word, paint, statuses) in WORDS {
            let count = self.of(statuses);
            known += count;
            let word = if over && word == "to come" { "not begun" } else { word };
            if count > 0 {
                parts.push(paint.on(&format!("{} {word}", thousands(count)), color));
            }
        }
        let other = self.by_status.values().sum::<u64>().saturating_sub(known);
        if other > 0 {
            parts.push(format!("{} other", thousands(other)));
        }
        parts.join(", ")
    }
}

/// `1 host`, `1,200 hosts`.
pub fn hosts(count: u64) -> String {
    format!("{} {}", thousands(count), if count == 1 { "host" } else { "hosts" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(&str, u64)]) -> HostCounts {
        let by_status: BTreeMap<String, u64> = of.iter().map(|(status, n)| ((*status).to_owned(), *n)).collect();
        HostCounts { total: by_status.values().sum(), begun: 0, by_status }
    }

    #[test]
    fn counts_are_said_in_an_order_and_what_is_new_to_us_is_not_hidden() {
        let counts = counts(&[("new", 25), ("success", 1_011), ("failed", 1), ("dead", 2), ("dancing", 4)]);
        assert_eq!(counts.words(false, false), "1,011 ok, 3 failed, 25 to come, 4 other");
        assert_eq!(counts.words(true, false), "1,011 ok, 3 failed, 25 not begun, 4 other");
        assert_eq!(counts.ended(), 1_014);
    }
}
