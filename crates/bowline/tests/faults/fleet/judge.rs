//! What must hold of commands after a fault, as judgements over what was seen.
//!
//! A judgement never panics, so that [`controls`](super::controls) can show it a sight that it must refuse.

use std::collections::BTreeSet;

use bowline_model::Timestamp;
use serde_json::Value;

pub use crate::support::oracle::Judgement;

/// What commands wrote about themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// The run of each start, in order.
    pub starts: Vec<String>,
    pub ends: Vec<String>,
    /// Runs that found another one at work when they started.
    pub overlaps: Vec<String>,
}

impl Account {
    pub fn read(text: &str) -> Self {
        let runs = |word: &str| {
            let of_word = |line: &str| {
                let mut words = line.split(' ');
                (words.next() == Some(word)).then(|| words.next().unwrap_or("").to_owned())
            };
            text.lines().filter_map(of_word).collect()
        };
        Self { starts: runs("start"), ends: runs("end"), overlaps: runs("overlap") }
    }
}

/// So many starts, each of a run of its own, so many ends, and never two at a time.
pub fn executed(account: &Account, starts: usize, ends: usize) -> Judgement {
    if let Some(run) = account.overlaps.first() {
        return Err(format!("run {run} found another one at work"));
    }
    let unique: BTreeSet<_> = account.starts.iter().collect();
    if unique.len() != account.starts.len() {
        return Err(format!("a run was started twice: {:?}", account.starts));
    }
    if (account.starts.len(), account.ends.len()) != (starts, ends) {
        return Err(format!("{} starts and {} ends", account.starts.len(), account.ends.len()));
    }
    Ok(())
}

/// Everything that was printed is there, byte for byte.
pub fn printed(kept: &str, right: &str) -> Judgement {
    if kept == right {
        return Ok(());
    }
    let same = kept.bytes().zip(right.bytes()).take_while(|(one, other)| one == other).count();
    Err(format!("{} bytes instead of {}, and other ones from {same} on", kept.len(), right.len()))
}

/// In the whole history nobody was given up, and so nobody had to be put right.
pub fn nobody_lost(history: &[Value]) -> Judgement {
    const OPINIONS: [&str; 5] = ["run_lost", "run_returned", "run_corrected", "job_errored", "job_corrected"];
    match history.iter().find(|event| OPINIONS.iter().any(|kind| event["type"] == *kind)) {
        None if history.is_empty() => Err("there is no history".to_owned()),
        None => Ok(()),
        Some(event) => Err(event.to_string()),
    }
}

/// How far back the time may go from one event to the next where several transactions write at once: each writes the moment at
/// which it began, and its place in the stream is that of its first write. So this is the longest that one lasts.
pub const TRANSACTION_MS: i64 = 10_000;

/// The ledger's times go forward, but for `back_ms` where transactions overlap, and from its first event to its last no more
/// time passed than really did.
pub fn time_went_on(history: &[Value], really_ms: i64, back_ms: i64) -> Judgement {
    let mut times = Vec::with_capacity(history.len());
    for event in history {
        times.push(moment(&event["ts"])?);
    }
    let mut latest = times.first().copied().unwrap_or_default();
    for at in &times {
        if latest > at.plus_millis(back_ms) {
            return Err(format!("{at} comes after {latest}"));
        }
        latest = latest.max(*at);
    }
    let (Some(first), Some(last)) = (times.iter().min(), times.iter().max()) else {
        return Err("there is no history".to_owned());
    };
    let passed = millis_between(*first, *last);
    // The clock may be slewed by a thousandth.
    if passed <= really_ms + really_ms / 500 + 1_000 {
        Ok(())
    } else {
        Err(format!("{passed} ms passed in the ledger, and {really_ms} ms in the world"))
    }
}

/// One clock is ahead of another by so many seconds, give or take what a slow machine needs between two looks.
pub fn is_ahead(one: Timestamp, other: Timestamp, seconds: i64) -> Judgement {
    let ahead = millis_between(other, one);
    if (ahead - seconds * 1_000).abs() < 60_000 {
        Ok(())
    } else {
        Err(format!("{one} is {ahead} ms ahead of {other}, not {seconds} s"))
    }
}

/// A time limit that ended a command when it was over: not before, and not much later.
pub fn timed_out_in_time(run: &Value, limit_ms: i64) -> Judgement {
    if run["status"] != "timed_out" && run["error"]["class"] != "timeout" {
        return Err(format!("it was not its time limit that ended it: {run}"));
    }
    let took = millis_between(moment(&run["started_at"])?, moment(&run["finished_at"])?);
    if (limit_ms..limit_ms + 5_000).contains(&took) { Ok(()) } else { Err(format!("ended after {took} ms: {run}")) }
}

/// Records of an executor in the history: what it said about the time, and when the ledger heard it.
pub fn told_times(history: &[Value]) -> Vec<(Timestamp, Timestamp)> {
    let told = |event: &Value| Some((moment(&event["data"]["told_at"]).ok()?, moment(&event["ts"]).ok()?));
    history.iter().filter_map(told).collect()
}

/// Nothing of what a stranger said is anywhere.
pub fn nothing_of(mark: &str, seen: &[Value]) -> Judgement {
    match seen.iter().find(|value| value.to_string().contains(mark)) {
        None => Ok(()),
        Some(value) => Err(value.to_string()),
    }
}

/// There was no room: nothing could be written any more when it was tried.
pub fn was_full(attempt: &std::io::Result<()>) -> Judgement {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match attempt {
        Err(error) if matches!(error.kind(), StorageFull | FileTooLarge | QuotaExceeded) => Ok(()),
        other => Err(format!("a write ended with {other:?}")),
    }
}

pub fn moment(text: &Value) -> Result<Timestamp, String> {
    let text = text.as_str().ok_or_else(|| format!("{text} is no time"))?;
    text.parse().map_err(|error| format!("{text}: {error}"))
}

fn millis_between(from: Timestamp, to: Timestamp) -> i64 {
    (to.as_micros() - from.as_micros()) / 1_000
}
