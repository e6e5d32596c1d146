//! Whether a command spread as it was told to: judged from the order of events, by a reading of the rules that shares no
//! code with the one that is judged.

use std::collections::BTreeMap;

use bowline_model::fleet::{Rollout, Share};
use bowline_model::{Event, EventKind, HostName, Timestamp};

use super::notes::Start;
use crate::oracle::Violation;

/// Where one host of a command stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Lives,
    Failed,
    Over,
}

/// What an event makes of the host it is about.
const fn after(kind: EventKind) -> Option<Standing> {
    match kind {
        EventKind::JobEnqueued
        | EventKind::HostAwaited
        | EventKind::HostGranted
        | EventKind::JobDue
        | EventKind::JobStarted
        | EventKind::RunFailed
        | EventKind::RunRefused
        | EventKind::RunLost
        | EventKind::RunReturned => Some(Standing::Lives),
        EventKind::JobFailed
        | EventKind::JobErrored
        | EventKind::JobDeadLettered
        | EventKind::UnitTimedOut
        | EventKind::UnitUnreachable => Some(Standing::Failed),
        EventKind::JobSucceeded | EventKind::JobCanceled | EventKind::JobCorrected | EventKind::UnitBlocked => {
            Some(Standing::Over)
        }
        _ => None,
    }
}

fn size(share: Share, total: usize) -> usize {
    match share {
        Share::Hosts(hosts) => hosts as usize,
        Share::Percent(percent) => total * usize::from(percent) / 100,
    }
}

/// Which batch the host with this place in the line belongs to.
fn batch_of(place: usize, rollout: &Rollout, total: usize) -> usize {
    let canary = rollout.canary.map_or(0, |share| size(share, total).max(1));
    if place < canary {
        return 0;
    }
    let first = usize::from(canary > 0);
    match rollout.serial {
        None => first,
        Some(share) => first + (place - canary) / size(share, total).max(1),
    }
}

/// Judges one command by all of its events in order, and by the processes that were seen.
pub fn judge(rollout: &Rollout, total: usize, events: &[&Event], starts: &[&Start], found: &mut Vec<Violation>) {
    if events.iter().any(|event| event.kind == EventKind::JobRetried && event.host.is_none()) {
        // What a person wants again begins at once, wherever it did not succeed.
        return;
    }
    let mut line: Vec<&HostName> = Vec::new();
    let mut standing: BTreeMap<&HostName, Standing> = BTreeMap::new();
    let mut over_at: BTreeMap<&HostName, Timestamp> = BTreeMap::new();
    let canary = rollout.canary.map_or(0, |share| size(share, total).max(1));
    for event in events {
        let Some(host) = &event.host else { continue };
        let Some(next) = after(event.kind) else { continue };
        if standing.insert(host, next).is_none() {
            let failed = standing.values().filter(|standing| **standing == Standing::Failed).count();
            let place = line.len();
            line.push(host);
            let allowed = rollout.max_failures.map_or(usize::MAX, |share| size(share, total));
            if failed > allowed {
                found.push(Violation::new("rollout", format!("{host} was begun after {failed} had failed")));
            }
            if place >= canary && line[..canary.min(place)].iter().any(|h| standing[*h] == Standing::Failed) {
                found.push(Violation::new("rollout", format!("{host} was begun although a canary had failed")));
            }
        }
        if next != Standing::Lives {
            over_at.entry(host).or_insert(event.at);
        }
    }
    let place_of = |host: &HostName| line.iter().position(|other| *other == host);
    for start in starts {
        let Some(place) = place_of(&start.host) else {
            found.push(Violation::new("rollout", format!("{} was never begun, and run {} ran", start.host, start.run)));
            continue;
        };
        let batch = batch_of(place, rollout, total);
        for (other, host) in line.iter().enumerate() {
            let earlier = batch_of(other, rollout, total) < batch;
            if earlier && over_at.get(host).is_none_or(|at| *at > start.at) {
                let text =
                    format!("run {} started on {} before {host} of the batch before was over", start.run, start.host);
                found.push(Violation::new("rollout", text));
            }
        }
    }
}
