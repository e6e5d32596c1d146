//! How a command spreads over its hosts: how many at first, how many at a time, and when to stop.
//!
//! *Batch*: hosts that are begun together; the next batch begins when every host of this one has ended. *Canary*: a small
//! first batch; one failure in it stops the job. *Failure*: a host that ended as failed, timed out, could
//! not be reached, or whose executor was lost.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::End;
use crate::job::JobStatus;
use crate::planted::{self, Mistake};

/// A number of hosts, or a part of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    Hosts(u32),
    Percent(u8),
}

/// Why a text is not a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a number of hosts such as 50, or a part of them such as 5%")]
pub struct NotAShare;

impl Share {
    /// How many of `total` that is, rounded down.
    pub fn of(self, total: u64) -> u64 {
        match self {
            Self::Hosts(hosts) => u64::from(hosts),
            Self::Percent(percent) => total.saturating_mul(u64::from(percent)) / 100,
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hosts(hosts) => write!(f, "{hosts}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl FromStr for Share {
    type Err = NotAShare;

    fn from_str(text: &str) -> Result<Self, NotAShare> {
        match text.strip_suffix('%') {
            None => text.parse().map(Self::Hosts).map_err(|_| NotAShare),
            Some(percent) => match percent.parse() {
                Ok(percent @ 0..=100) => Ok(Self::Percent(percent)),
                _ => Err(NotAShare),
            },
        }
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Hosts(hosts) => serializer.serialize_u32(*hosts),
            Self::Percent(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(u32),
            Text(String),
        }
        match Either::deserialize(deserializer) {
            Ok(Either::Number(hosts)) => Ok(Self::Hosts(hosts)),
            Ok(Either::Text(text)) => text.parse().map_err(serde::de::Error::custom),
            Err(_) => Err(serde::de::Error::custom(NotAShare)),
        }
    }
}

impl JsonSchema for Share {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Share".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                {"type": "integer", "minimum": 0, "maximum": u32::MAX},
                {"type": "string", "pattern": "^(100|[0-9]{1,2})%$"}
            ]
        })
    }
}

/// How a command spreads.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rollout {
    /// Begin with this many hosts, and stop if one of them fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<Share>,
    /// Then this many at a time; all at once unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<Share>,
    /// Begin no more hosts when more than this many have failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_failures: Option<Share>,
}

/// Why a rollout cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} must be at least one host")]
pub struct BadRollout(&'static str);

impl Rollout {
    pub fn check(&self) -> Result<(), BadRollout> {
        let empty = |share: Option<Share>| matches!(share, Some(Share::Hosts(0) | Share::Percent(0)));
        if empty(self.canary) {
            return Err(BadRollout("canary"));
        }
        if empty(self.serial) {
            return Err(BadRollout("serial"));
        }
        Ok(())
    }

    /// Where the batch ends that begins with host number `from` of `total`.
    pub fn batch_end(&self, from: u64, total: u64) -> u64 {
        let size = match (from, self.canary, self.serial) {
            (0, Some(_), _) if planted::on(Mistake::CanaryIgnored) => total,
            (0, Some(share), _) | (_, _, Some(share)) => share.of(total).max(1),
            _ => total,
        };
        from.saturating_add(size).min(total)
    }
}

/// How many units of a command stand where.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally(BTreeMap<JobStatus, u64>);

impl FromIterator<(JobStatus, u64)> for Tally {
    fn from_iter<I: IntoIterator<Item = (JobStatus, u64)>>(counts: I) -> Self {
        let mut tally = BTreeMap::new();
        for (status, units) in counts {
            *tally.entry(status).or_default() += units;
        }
        Self(tally)
    }
}

impl Tally {
    pub fn of(&self, status: JobStatus) -> u64 {
        self.0.get(&status).copied().unwrap_or(0)
    }

    pub fn all(&self) -> u64 {
        self.0.values().sum()
    }

    /// Units that have not ended.
    pub fn live(&self) -> u64 {
        self.0.iter().filter(|(status, _)| !status.is_terminal()).map(|(_, units)| units).sum()
    }

    pub fn failures(&self) -> u64 {
        self.0.iter().filter(|(status, _)| status.is_failure()).map(|(_, units)| units).sum()
    }

    pub fn counts(&self) -> impl Iterator<Item = (JobStatus, u64)> {
        self.0.iter().map(|(status, units)| (*status, *units))
    }
}

/// What goes through the units of a command, bite by bite, beside the planning of new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sweep {
    /// Nothing.
    #[default]
    None,
    /// Everything that lives is told to stop.
    Cancel,
    /// What has not begun is taken back; what runs may finish.
    TakeBack,
    /// What did not succeed is begun again.
    Retry,
}

impl Sweep {
    /// The number the ledger keeps. Never reuse one.
    pub const fn code(self) -> i64 {
        match self {
            Self::None => 0,
            Self::Cancel => 1,
            Self::TakeBack => 2,
            Self::Retry => 3,
        }
    }

    pub const fn from_code(code: i64) -> Self {
        match code {
            1 => Self::Cancel,
            2 => Self::TakeBack,
            3 => Self::Retry,
            _ => Self::None,
        }
    }
}

/// How far a command has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    pub status: JobStatus,
    pub total: u64,
    /// Hosts that have a unit.
    pub planned: u64,
    /// Up to where hosts may be begun.
    pub batch_end: u64,
    /// Why no more hosts are begun.
    pub stopped: Option<String>,
    pub sweep: Sweep,
    /// Why what was approved is not what would run any more, as was found when a host was about to start.
    pub superseded: Option<String>,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// Begin these many more hosts; the batch ends there now.
    Plan { hosts: u64, batch_end: u64 },
    /// Begin no more, for this reason.
    Stop(String),
    /// Go on with the sweep.
    Sweep(Sweep),
    /// It is over.
    End(End, Option<String>),
    /// How it ended has changed.
    Correct,
    /// Nothing, until a unit ends or somebody orders something.
    Wait,
}

/// Hosts that are begun in one transaction.
pub const BITE: u64 = 1_000;

impl Progress {
    pub fn next(&self, rollout: &Rollout, tally: &Tally) -> Move {
        let good = tally.of(JobStatus::Succeeded) == self.total;
        match self.status {
            JobStatus::Failed | JobStatus::Canceled if good => return Move::Correct,
            JobStatus::Running | JobStatus::Canceling => {}
            _ => return Move::Wait,
        }
        if self.sweep != Sweep::None {
            return Move::Sweep(self.sweep);
        }
        let live = tally.live();
        if self.status == JobStatus::Canceling {
            return match (live, good, &self.stopped) {
                (1.., ..) => Move::Wait,
                (0, true, _) => Move::End(End::Succeeded, None),
                (0, false, None) => Move::End(End::Canceled, None),
                (0, false, Some(why)) => Move::End(End::Failed, Some(why.clone())),
            };
        }
        if let Some(why) = &self.stopped {
            return if live > 0 { Move::Wait } else { Move::End(End::Failed, Some(why.clone())) };
        }
        if let Some(why) = &self.superseded {
            return Move::Stop(format!("what was approved has changed: {why}"));
        }
        if let Some(why) = self.must_stop(rollout, tally) {
            return Move::Stop(why);
        }
        let batch_end = if self.planned < self.batch_end || live > 0 {
            self.batch_end
        } else {
            rollout.batch_end(self.planned, self.total)
        };
        if self.planned < batch_end {
            return Move::Plan { hosts: (batch_end - self.planned).min(BITE), batch_end };
        }
        match live {
            0 if good => Move::End(End::Succeeded, None),
            0 => Move::End(End::Failed, Some(self.verdict(tally))),
            _ => Move::Wait,
        }
    }

    /// Whether too much has gone wrong, in words.
    fn must_stop(&self, rollout: &Rollout, tally: &Tally) -> Option<String> {
        let failures = tally.failures();
        let in_canary = rollout.canary.is_some_and(|share| self.planned <= share.of(self.total).max(1));
        if failures > 0 && in_canary && self.planned < self.total {
            return Some(format!("{failures} of {} canary hosts failed", self.planned));
        }
        let allowed = rollout.max_failures?;
        if failures <= allowed.of(self.total) || (self.planned == self.total && tally.live() == 0) {
            return None;
        }
        Some(format!("{failures} hosts failed, and {allowed} may"))
    }

    fn verdict(&self, tally: &Tally) -> String {
        let mut parts = Vec::new();
        for (word, count) in [
            ("failed", tally.of(JobStatus::Failed) + tally.of(JobStatus::Dead)),
            ("timed out", tally.of(JobStatus::TimedOut)),
            ("unreachable", tally.of(JobStatus::Unreachable)),
            ("lost", tally.of(JobStatus::Error)),
            ("blocked", tally.of(JobStatus::Blocked)),
            ("canceled", tally.of(JobStatus::Canceled)),
        ] {
            if count > 0 {
                parts.push(format!("{count} {word}"));
            }
        }
        format!("of {} hosts {}", self.total, parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn tally(counts: &[(JobStatus, u64)]) -> Tally {
        counts.iter().copied().collect()
    }

    fn running(total: u64, planned: u64, batch_end: u64) -> Progress {
        Progress {
            status: JobStatus::Running,
            total,
            planned,
            batch_end,
            stopped: None,
            sweep: Sweep::None,
            superseded: None,
        }
    }

    #[test]
    fn shares_are_numbers_or_percents() {
        for (text, share) in [("7", Share::Hosts(7)), ("5%", Share::Percent(5)), ("100%", Share::Percent(100))] {
            assert_eq!(text.parse(), Ok(share));
            assert_eq!(share.to_string(), text);
        }
        for text in ["", "x", "-1", "101%", "5 %", "%", "1.5"] {
            assert_eq!(text.parse::<Share>(), Err(NotAShare), "{text}");
        }
        let read = |value| serde_json::from_value::<Share>(value).ok();
        assert_eq!(read(json!(3)), Some(Share::Hosts(3)));
        assert_eq!(read(json!("3%")), Some(Share::Percent(3)));
        assert_eq!(read(json!(-3)), None);
        assert_eq!(Share::Percent(5).of(10), 0);
        assert_eq!((Share::Percent(15).of(50), Share::Percent(100).of(50), Share::Hosts(7).of(5)), (7, 50, 7));
        for share in [Share::Hosts(3), Share::Percent(3)] {
            assert_eq!(read(serde_json::to_value(share).expect("JSON")), Some(share));
        }
        let schema = schemars::schema_for!(Share);
        assert_eq!(schema.get("title"), Some(&json!("Share")));
        assert!(schema.get("oneOf").is_some_and(|sorts| sorts[0]["type"] == "integer" && sorts[1]["type"] == "string"));
    }

    #[test]
    fn a_canary_goes_first_and_batches_follow() {
        use JobStatus::{Failed, Running, Succeeded};
        let rollout = Rollout {
            canary: Some(Share::Hosts(2)),
            serial: Some(Share::Percent(50)),
            max_failures: Some(Share::Hosts(1)),
        };
        let next = |progress: &Progress, counts: &[(JobStatus, u64)]| progress.next(&rollout, &tally(counts));
        assert_eq!(next(&running(10, 0, 0), &[]), Move::Plan { hosts: 2, batch_end: 2 });
        assert_eq!(next(&running(10, 2, 2), &[(Running, 1), (Succeeded, 1)]), Move::Wait);
        assert!(matches!(next(&running(10, 2, 2), &[(Failed, 1), (Running, 1)]), Move::Stop(_)));
        assert_eq!(next(&running(10, 2, 2), &[(Succeeded, 2)]), Move::Plan { hosts: 5, batch_end: 7 });
        assert_eq!(next(&running(10, 7, 7), &[(Succeeded, 6), (Failed, 1)]), Move::Plan { hosts: 3, batch_end: 10 });
        assert!(matches!(next(&running(10, 7, 7), &[(Succeeded, 5), (Failed, 2)]), Move::Stop(_)));
        let stopped = Progress { stopped: Some("enough".to_owned()), ..running(10, 7, 7) };
        assert_eq!(next(&stopped, &[(Running, 1)]), Move::Wait);
        assert_eq!(next(&stopped, &[(Failed, 2), (Succeeded, 5)]), Move::End(End::Failed, Some("enough".to_owned())));
        let end = next(&running(10, 10, 10), &[(Failed, 1), (Succeeded, 9)]);
        assert_eq!(end, Move::End(End::Failed, Some("of 10 hosts 1 failed".to_owned())));
        assert_eq!(next(&running(10, 10, 10), &[(Succeeded, 10)]), Move::End(End::Succeeded, None));
    }

    #[test]
    fn an_end_says_how_many_hosts_ended_in_which_way() {
        use JobStatus::{Blocked, Canceled, Dead, Error, Failed, Succeeded, TimedOut, Unreachable};
        let counts = [
            (Failed, 1),
            (Dead, 2),
            (TimedOut, 3),
            (Unreachable, 4),
            (Error, 5),
            (Blocked, 6),
            (Canceled, 7),
            (Succeeded, 8),
        ];
        let counts = tally(&counts);
        assert_eq!((counts.all(), counts.live(), counts.failures()), (36, 0, 15));
        let words = "of 36 hosts 3 failed, 3 timed out, 4 unreachable, 5 lost, 6 blocked, 7 canceled";
        let end = running(36, 36, 36).next(&Rollout::default(), &counts);
        assert_eq!(end, Move::End(End::Failed, Some(words.to_owned())));
    }

    #[test]
    fn counts_of_the_same_status_add_up() {
        use JobStatus::{Queued, Running, Succeeded};
        let counts = tally(&[(Running, 2), (Queued, 1), (Running, 3), (Succeeded, 4)]);
        assert_eq!((counts.of(Running), counts.of(JobStatus::Failed)), (5, 0));
        assert_eq!((counts.all(), counts.live()), (10, 6));
        assert_eq!(counts.counts().collect::<Vec<_>>(), [(Queued, 1), (Running, 5), (Succeeded, 4)]);
    }

    #[test]
    fn failures_stop_what_goes_on_and_not_what_is_over() {
        use JobStatus::{Failed, Running, Succeeded};
        let limited = Rollout { max_failures: Some(Share::Percent(10)), ..Rollout::default() };
        let next = |rollout: &Rollout, progress: &Progress, counts: &[_]| progress.next(rollout, &tally(counts));
        let all = running(20, 20, 20);
        assert_eq!(next(&limited, &all, &[(Failed, 2), (Running, 18)]), Move::Wait, "a tenth may fail");
        let why = "3 hosts failed, and 10% may".to_owned();
        assert_eq!(next(&limited, &all, &[(Failed, 3), (Running, 17)]), Move::Stop(why));
        assert!(matches!(next(&limited, &all, &[(Failed, 3), (Succeeded, 17)]), Move::End(End::Failed, _)));
        let canary = Rollout { canary: Some(Share::Percent(5)), ..Rollout::default() };
        let one = running(10, 1, 1);
        let why = "1 of 1 canary hosts failed".to_owned();
        assert_eq!(next(&canary, &one, &[(Failed, 1)]), Move::Stop(why), "half a host is one");
        assert_eq!(next(&canary, &running(10, 10, 10), &[(Failed, 1), (Running, 9)]), Move::Wait, "it was no canary");
        let alone = next(&canary, &running(1, 1, 1), &[(Failed, 1)]);
        assert_eq!(alone, Move::End(End::Failed, Some("of 1 hosts 1 failed".to_owned())));
    }

    #[test]
    fn a_first_batch_and_those_after_it_have_at_least_one_host() {
        let share = |text: &str| Some(text.parse::<Share>().expect("a share"));
        for (name, rollout) in [
            ("canary", Rollout { canary: share("0"), ..Rollout::default() }),
            ("canary", Rollout { canary: share("0%"), ..Rollout::default() }),
            ("serial", Rollout { serial: share("0"), ..Rollout::default() }),
            ("serial", Rollout { serial: share("0%"), ..Rollout::default() }),
        ] {
            let refused = rollout.check().expect_err("nothing would begin").to_string();
            assert_eq!(refused, format!("{name} must be at least one host"));
        }
        let none_may_fail = Rollout { canary: share("1"), serial: share("1%"), max_failures: share("0") };
        assert_eq!(none_may_fail.check(), Ok(()));
        assert_eq!([(0, 10), (1, 10), (9, 10)].map(|(from, total)| none_may_fail.batch_end(from, total)), [1, 2, 10]);
        assert_eq!(Rollout::default().batch_end(3, 10), 10);
    }

    #[test]
    fn nothing_more_begins_once_what_was_approved_has_changed() {
        let progress = Progress { superseded: Some("because".to_owned()), ..running(10, 2, 2) };
        let next = |progress: &Progress, counts| progress.next(&Rollout::default(), &tally(counts));
        let why = "what was approved has changed: because".to_owned();
        assert_eq!(next(&progress, &[(JobStatus::Failed, 1), (JobStatus::Running, 1)]), Move::Stop(why.clone()));
        let stopped = Progress { stopped: Some(why.clone()), ..progress };
        assert_eq!(next(&stopped, &[(JobStatus::Running, 1)]), Move::Wait);
        assert_eq!(next(&stopped, &[(JobStatus::Failed, 2)]), Move::End(End::Failed, Some(why)));
    }

    #[test]
    fn a_canceled_command_ends_as_what_happened() {
        use JobStatus::{Canceled, Canceling, Succeeded};
        let progress = Progress { status: Canceling, ..running(3, 3, 3) };
        let next =
            |progress: &Progress, counts: &[(JobStatus, u64)]| progress.next(&Rollout::default(), &tally(counts));
        assert_eq!(next(&Progress { sweep: Sweep::Cancel, ..progress.clone() }, &[]), Move::Sweep(Sweep::Cancel));
        assert_eq!(next(&progress, &[(Canceling, 1), (Canceled, 2)]), Move::Wait);
        assert_eq!(next(&progress, &[(Succeeded, 1), (Canceled, 2)]), Move::End(End::Canceled, None));
        assert_eq!(next(&progress, &[(Succeeded, 3)]), Move::End(End::Succeeded, None));
    }

    #[test]
    fn a_late_word_corrects_the_whole() {
        let failed = Progress { status: JobStatus::Failed, ..running(3, 3, 3) };
        assert_eq!(failed.next(&Rollout::default(), &tally(&[(JobStatus::Succeeded, 3)])), Move::Correct);
        let two = tally(&[(JobStatus::Succeeded, 2), (JobStatus::Error, 1)]);
        assert_eq!(failed.next(&Rollout::default(), &two), Move::Wait);
    }

    proptest! {
        /// Whatever the numbers: a job that is told to move comes to its end, and no host is begun twice or left out.
        #[test]
        fn every_command_ends(total in 1u64..3_000, canary in 0u32..50, serial in 0u32..400, fails in 0u32..40, every in 1u64..50) {
            let share = |n: u32| (n > 0).then_some(Share::Hosts(n));
            let rollout = Rollout { canary: share(canary), serial: share(serial), max_failures: share(fails) };
            let mut progress = running(total, 0, 0);
            let (mut succeeded, mut failed, mut live) = (0u64, 0u64, 0u64);
            for step in 0..100_000 {
                let counts = tally(&[
                    (JobStatus::Running, live), (JobStatus::Succeeded, succeeded), (JobStatus::Failed, failed),
                ]);
                match progress.next(&rollout, &counts) {
                    Move::Plan { hosts, batch_end } => {
                        prop_assert!(hosts > 0 && hosts <= BITE && batch_end <= total);
                        progress.planned += hosts;
                        progress.batch_end = batch_end;
                        live += hosts;
                        prop_assert!(progress.planned <= batch_end);
                    }
                    Move::Stop(why) => progress.stopped = Some(why),
                    Move::Wait => {
                        prop_assert!(live > 0, "it waits for nothing");
                        let ended = live.div_ceil(2);
                        live -= ended;
                        let bad = if step % every == 0 { 1 } else { 0 };
                        failed += bad;
                        succeeded += ended - bad;
                    }
                    Move::End(end, _) => {
                        prop_assert_eq!(live, 0);
                        prop_assert_eq!(end == End::Succeeded, succeeded == total);
                        prop_assert!(progress.stopped.is_some() || progress.planned == total);
                        return Ok(());
                    }
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            prop_assert!(false, "it never ends");
        }
    }
}
