//! What must be true of commands on hosts, from the contract and from what was seen on the machines.

use std::collections::{BTreeMap, BTreeSet};

use bowline_model::fleet::{HostLock, PinnedCommand, Tally};
use bowline_model::{Event, EventKind, HostName, JobId, JobStatus, RunStatus, TenantId};
use bowline_store::{FleetStore, JobRecord, RunRecord, UnitFilter, UnitRecord};

use super::FleetNotes;
use super::notes::{Block, Start};
use super::people::{REQUESTER, words_of};
use super::rollout;
use super::stage::KINDS;
use crate::oracle::Violation;
use crate::world::World;

/// Judges every command. `events` are all there are, in order.
pub async fn judge(world: &World, jobs: &[&JobRecord], events: &[Event]) -> anyhow::Result<Vec<Violation>> {
    let mut found = Vec::new();
    for machine in &world.fleet.machines {
        for run in machine.disk.borrow().runs.keys() {
            found.push(Violation::new("C10", format!("run {run} is still on the disk of {}", machine.host)));
        }
    }
    let mut by_job: BTreeMap<JobId, Vec<&Event>> = BTreeMap::new();
    for event in events {
        if let Some(job) = event.job {
            by_job.entry(job).or_default().push(event);
        }
    }
    one_at_a_time(jobs, events, &mut found);
    for job in jobs {
        let Some(fleet) = world.ledger.find_fleet(job.tenant, job.id).await? else { continue };
        let page = world.ledger.list_units(job.tenant, job.id, UnitFilter::default(), None, 1_000).await?;
        let own = by_job.remove(&job.id).unwrap_or_default();
        let before = found.len();
        {
            let notes = world.notes.borrow();
            let starts: Vec<&Start> = notes.fleet.starts.iter().filter(|start| start.command == job.id).collect();
            summary(job, fleet.total, &fleet.tally, &page.items, &mut found);
            approved(job, &own, &starts, &notes.fleet, &mut found);
            not_blocked(job, &starts, &notes.fleet, &mut found);
            let total = usize::try_from(fleet.total).unwrap_or(0);
            let asked = notes.fleet.commands.get(&job.id).map_or(&fleet.rollout, |command| &command.rollout);
            rollout::judge(asked, total, &own, &starts, &mut found);
        }
        for unit in &page.items {
            let Some((unit, runs)) = world.ledger.find_unit(job.tenant, job.id, unit.host.clone()).await? else {
                continue;
            };
            evidence(&unit, &runs, &own, &world.notes.borrow().fleet, &mut found);
        }
        found[before..].iter_mut().for_each(|violation| violation.text.push_str(&format!(" (job {})", job.id)));
    }
    Ok(found)
}

/// L2: nobody is handed a host for themselves while somebody else has it, or one that somebody has for themselves.
fn one_at_a_time(jobs: &[&JobRecord], events: &[Event], found: &mut Vec<Violation>) {
    let alone: BTreeSet<JobId> = jobs.iter().filter(|job| wants_alone(job)).map(|job| job.id).collect();
    let mut holders: BTreeMap<(TenantId, &HostName), BTreeSet<JobId>> = BTreeMap::new();
    for event in events {
        let (Some(job), Some(host)) = (event.job, &event.host) else { continue };
        let here = holders.entry((event.tenant, host)).or_default();
        match event.kind {
            EventKind::JobStarted => {
                let other = here.iter().find(|other| **other != job && (alone.contains(other) || alone.contains(&job)));
                if let Some(other) = other {
                    found.push(Violation::new("L2", format!("{host} was given to job {job} while job {other} has it")));
                }
                here.insert(job);
            }
            EventKind::RunFailed
            | EventKind::RunRefused
            | EventKind::RunLost
            | EventKind::RunReturned
            | EventKind::JobSucceeded
            | EventKind::JobFailed
            | EventKind::UnitTimedOut
            | EventKind::UnitUnreachable
            | EventKind::JobErrored
            | EventKind::JobDeadLettered
            | EventKind::JobCanceled
            | EventKind::JobCorrected => drop(here.remove(&job)),
            _ => {}
        }
    }
}

fn wants_alone(job: &JobRecord) -> bool {
    let pinned: Option<PinnedCommand> = job.payload.as_deref().and_then(|text| serde_json::from_str(text).ok());
    pinned.is_some_and(|pinned| pinned.spec.lock == HostLock::Exclusive)
}

/// The whole says what its parts did.
fn summary(job: &JobRecord, total: u64, tally: &Tally, units: &[UnitRecord], found: &mut Vec<Violation>) {
    let folded: Tally = units.iter().map(|unit| (unit.state.status, 1)).collect();
    let nonzero = |tally: &Tally| tally.counts().filter(|(_, units)| *units > 0).collect::<BTreeMap<_, _>>();
    if nonzero(tally) != nonzero(&folded) {
        found.push(Violation::new("C6", format!("it counts {tally:?}, and its hosts are {folded:?}")));
    }
    let good = folded.of(JobStatus::Succeeded) == total;
    let status = job.state.status;
    if (status == JobStatus::Succeeded) != good {
        let text = format!("it is {status}, and {} of {total} hosts succeeded", folded.of(JobStatus::Succeeded));
        found.push(Violation::new("J3", text));
    }
    if folded.live() > 0 {
        found.push(Violation::new("C14", format!("it is {status}, and hosts of it are {folded:?}")));
    }
}

/// C8, A1, A2, A3, A6: nothing starts without its approval, and nothing but what was approved.
fn approved(job: &JobRecord, events: &[&Event], starts: &[&Start], notes: &FleetNotes, found: &mut Vec<Violation>) {
    let pinned: Option<PinnedCommand> = job.payload.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let Some(pinned) = pinned else { return };
    let words = words_of(&pinned);
    for start in starts {
        let asked = notes.commands.get(&job.id).map(|command| command.ask.to_string());
        let same = start.argv.first() == words.first() && start.argv.last() == words.last();
        let same = same && asked.is_none_or(|ask| start.argv.get(1) == Some(&ask));
        if !same {
            found.push(Violation::new("C8", format!("run {} executed {:?}, not {words:?}", start.run, start.argv)));
        }
    }
    let kind = KINDS.iter().find(|kind| Some(kind.name) == words.first().map(String::as_str));
    let Some((quorum, four_eyes)) = kind.and_then(|kind| kind.approval) else { return };
    let approved_at = events.iter().find(|event| event.kind == EventKind::JobApproved).map(|event| event.at);
    for start in starts {
        if approved_at.is_none_or(|at| start.at < at) {
            found.push(Violation::new("A1", format!("run {} was started without an approval", start.run)));
        }
    }
    let Some(approved_at) = approved_at else { return };
    let counts = |vote: &&super::notes::Vote| {
        vote.job == job.id && vote.yes && vote.sent_at <= approved_at && !(four_eyes && vote.by == REQUESTER)
    };
    let saw_it = |vote: &&super::notes::Vote| !vote.overtaken && Some(&vote.saw) == words.last();
    let given: BTreeSet<&str> = notes.votes.iter().filter(counts).filter(saw_it).map(|vote| vote.by.as_str()).collect();
    if given.len() < quorum as usize {
        let text = format!("it was approved, and of {quorum} who must say yes to it only {given:?} did in time");
        found.push(Violation::new("A2", text));
    }
}

/// A host that was blocked before the hand-out executes nothing.
fn not_blocked(job: &JobRecord, starts: &[&Start], notes: &FleetNotes, found: &mut Vec<Violation>) {
    let Some(command) = notes.commands.get(&job.id) else { return };
    let holds = |block: &&Block, start: &Start| {
        block.tenant == job.tenant
            && block.host.as_ref().is_none_or(|host| *host == start.host)
            && block.kind.is_none_or(|kind| kind == command.kind)
            && block.set_at < start.claimed_at
            && block.lifted_at.is_none_or(|at| at > start.claimed_at)
            && block.expires_at.is_none_or(|at| at > start.claimed_at)
    };
    for start in starts {
        if let Some(block) = notes.blocks.iter().find(|block| holds(block, start)) {
            let text =
                format!("run {} was handed to {}, which is forbidden since {}", start.run, start.host, block.set_at);
            found.push(Violation::new("block", text));
        }
    }
}

/// C2, C5, R2: what is shown of a host is what was seen there, and all of it has arrived.
fn evidence(unit: &UnitRecord, runs: &[RunRecord], events: &[&Event], notes: &FleetNotes, found: &mut Vec<Violation>) {
    let host: &HostName = &unit.host;
    for run in runs {
        let started = notes.starts.iter().any(|start| start.run == run.id);
        let told = notes.not_begun.get(&run.id);
        let right = match notes.ends.get(&run.id) {
            Some(ends) => ends.contains(&run.status),
            None if started => run.status == RunStatus::Failed && told.is_none(),
            None => told == Some(&run.status) || run.status.is_opinion(),
        };
        if !right {
            let seen = notes.ends.get(&run.id);
            let text =
                format!("run {} on {host} is {}, but there {seen:?} was seen, {told:?} told", run.id, run.status);
            found.push(Violation::new("C2", text));
        }
        let Some(last) = notes.freed_at.get(&run.id) else { continue };
        if run.acked_seq != run.last_seq || run.acked_seq < *last {
            let text = format!("run {} on {host}: {} of {} records are here", run.id, run.acked_seq, last);
            found.push(Violation::new("C5", text));
        }
        let of_run = |event: &&&Event| event.host.as_ref() == Some(host) && event.fence == Some(run.fence);
        let mut told: Vec<&&Event> = events.iter().filter(of_run).filter(|event| event.seq.is_some()).collect();
        told.sort_by_key(|event| event.seq);
        let last_word = told.last().and_then(|event| serde_json::to_value(&event.data.detail).ok());
        if last_word.is_none_or(|word| word["kind"] != "ended") {
            found.push(Violation::new("C5", format!("run {} on {host} does not end with its end", run.id)));
        }
        let mut seqs: Vec<u64> = told.iter().filter_map(|event| event.seq).collect();
        seqs.sort_unstable();
        if !seqs.iter().copied().eq(1..=run.acked_seq) {
            found.push(Violation::new("C5", format!("run {} on {host} has the records {seqs:?}", run.id)));
        }
    }
    let latest = runs.last().map(|run| run.status);
    if latest == Some(RunStatus::Succeeded) && unit.state.status != JobStatus::Succeeded {
        found.push(Violation::new("J3", format!("{host} is {}, and its last run succeeded", unit.state.status)));
    }
    if unit.state.status == JobStatus::Succeeded && !runs.iter().any(|run| run.status == RunStatus::Succeeded) {
        found.push(Violation::new("J3", format!("{host} succeeded without a run that did")));
    }
}
