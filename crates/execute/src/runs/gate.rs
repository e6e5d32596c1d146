//! Whether a run may begin here. What the server believes does not count: this is the host's own memory. Pure.

use bowline_model::RunId;
use bowline_model::planted::{self, Mistake};

use super::begin::BeginError;
use super::memory::{Memory, is_same_or_later};
use super::standing::Standing;
use crate::manifest::{HostLock, Manifest};

/// Refuses what was executed before, what has been overtaken, and what must not run beside what runs. `here` are the runs
/// that have a directory, each with its manifest.
pub fn admit<'a>(
    manifest: &Manifest,
    here: impl Iterator<Item = (&'a Manifest, &'a Standing)> + Clone,
    memory: &Memory,
) -> Result<(), BeginError> {
    match here.clone().find(|(other, _)| other.run == manifest.run) {
        None | Some((_, Standing::NeverStarted { .. })) => {}
        Some(_) => return Err(BeginError::AlreadyStarted(manifest.run)),
    }
    executed_before(manifest, here.clone(), memory)?;
    let of_host = here.filter(|(other, _)| other.host == manifest.host);
    let seen = of_host.clone().map(|(other, _)| other.host_fence).max().unwrap_or(0);
    let seen = seen.max(memory.host_fence(&manifest.host));
    if manifest.host_fence < seen {
        return Err(BeginError::Superseded { host: manifest.host.clone(), given: manifest.host_fence, seen });
    }
    match in_the_way(manifest, of_host) {
        Some(run) => Err(BeginError::HostBusy { run }),
        None => Ok(()),
    }
}

/// The same attempt at the job, or a later one: in a directory here, or remembered.
fn executed_before<'a>(
    manifest: &Manifest,
    here: impl Iterator<Item = (&'a Manifest, &'a Standing)>,
    memory: &Memory,
) -> Result<(), BeginError> {
    if let Some(done) = memory.executed(manifest.job, manifest.fence, manifest.attempt) {
        return Err(BeginError::AlreadyExecuted {
            run: done.run,
            outcome: Some(done.outcome),
            exit_code: done.exit_code,
        });
    }
    for (other, standing) in here {
        let (done, asked) = ((other.fence, other.attempt), (manifest.fence, manifest.attempt));
        let same_job = other.job == manifest.job && is_same_or_later(done, asked);
        match standing {
            _ if !same_job || other.run == manifest.run => {}
            Standing::NeverStarted { .. } => {}
            Standing::Running => {
                return Err(BeginError::AlreadyExecuted { run: other.run, outcome: None, exit_code: None });
            }
            Standing::Ended(ended) => {
                let (outcome, exit_code) = (Some(ended.outcome), ended.exit_code);
                return Err(BeginError::AlreadyExecuted { run: other.run, outcome, exit_code });
            }
        }
    }
    Ok(())
}

/// A run that has not ended and does not share the host with this one.
fn in_the_way<'a>(
    manifest: &Manifest,
    mut of_host: impl Iterator<Item = (&'a Manifest, &'a Standing)>,
) -> Option<RunId> {
    if planted::on(Mistake::GateOpen) {
        return None;
    }
    let both_share = |other: &Manifest| manifest.lock == HostLock::Shared && other.lock == HostLock::Shared;
    let conflict = of_host.find(|(other, standing)| **standing == Standing::Running && !both_share(other));
    conflict.map(|(other, _)| other.run)
}

#[cfg(test)]
mod tests {
    use bowline_model::{HostName, JobId, Timestamp};

    use super::*;
    use crate::log::{Ended, EndedAs};
    use crate::manifest::tests::sample;

    fn run(number: u8) -> RunId {
        RunId::mint(Timestamp::from_millis(1), [number; 10])
    }

    /// The first attempt at a job of its own, on the host of all others.
    fn manifest(number: u8) -> Manifest {
        Manifest { run: run(number), job: JobId::mint(Timestamp::from_millis(1), [number; 10]), ..sample() }
    }

    fn ended() -> Standing {
        Standing::Ended(Ended {
            outcome: EndedAs::Failed,
            exit_code: Some(9),
            signal: None,
            message: None,
            children: None,
            duration_ms: None,
            stdout_bytes: 0,
            stderr_bytes: 0,
            last_seq: 1,
        })
    }

    fn never_started() -> Standing {
        Standing::NeverStarted { why: None }
    }

    fn asked(manifest: &Manifest, other: &Manifest, standing: &Standing) -> Result<(), BeginError> {
        admit(manifest, std::iter::once((other, standing)), &Memory::new(10))
    }

    #[test]
    fn a_run_begins_once() {
        for standing in [Standing::Running, ended()] {
            let again = asked(&manifest(1), &manifest(1), &standing);
            assert!(matches!(again, Err(BeginError::AlreadyStarted(started)) if started == run(1)), "{again:?}");
        }
        assert!(asked(&manifest(1), &manifest(1), &never_started()).is_ok());
    }

    #[test]
    fn an_attempt_that_was_executed_is_not_executed_again_as_another_run() {
        let first = manifest(1);
        let again = Manifest { run: run(2), ..first.clone() };
        let earlier = Manifest { fence: first.fence - 1, ..again.clone() };
        for (standing, outcome, exit_code) in
            [(Standing::Running, None, None), (ended(), Some(EndedAs::Failed), Some(9))]
        {
            for manifest in [&again, &earlier] {
                let Err(BeginError::AlreadyExecuted { run: done, outcome: how, exit_code: code }) =
                    asked(manifest, &first, &standing)
                else {
                    panic!("{standing:?}")
                };
                assert_eq!((done, how, code), (run(1), outcome, exit_code));
            }
        }
        assert!(asked(&again, &first, &never_started()).is_ok());
        let later = Manifest { fence: first.fence + 1, ..again.clone() };
        assert!(asked(&later, &first, &ended()).is_ok(), "the next attempt is welcome");
        let mut memory = Memory::new(10);
        memory.remember(&first, EndedAs::Failed, Some(9), Timestamp::from_millis(5));
        let remembered = admit(&again, std::iter::empty(), &memory);
        assert!(matches!(remembered, Err(BeginError::AlreadyExecuted { outcome: Some(_), exit_code: Some(9), .. })));
        assert!(admit(&later, std::iter::empty(), &memory).is_ok());
    }

    #[test]
    fn an_older_lease_of_a_host_is_over_once_a_newer_one_was_seen() {
        let late = manifest(1);
        let given = late.host_fence;
        let newer = Manifest { host_fence: given + 1, ..manifest(2) };
        let answer = asked(&late, &newer, &ended());
        assert!(matches!(answer, Err(BeginError::Superseded { given: 7, seen: 8, .. })), "{answer:?}");
        assert!(asked(&late, &Manifest { host_fence: given, ..newer.clone() }, &ended()).is_ok());
        let elsewhere = Manifest { host: HostName::new("web-2").unwrap(), ..newer };
        assert!(asked(&late, &elsewhere, &ended()).is_ok());
        let mut memory = Memory::new(10);
        memory.see_host(&late.host, given);
        assert!(admit(&late, std::iter::empty(), &memory).is_ok());
        memory.see_host(&late.host, given + 2);
        let answer = admit(&late, std::iter::empty(), &memory);
        assert!(matches!(answer, Err(BeginError::Superseded { given: 7, seen: 9, .. })), "{answer:?}");
    }

    #[test]
    fn one_that_wants_a_host_alone_and_others_are_not_on_it_together() {
        use HostLock::{Exclusive, Shared};
        for (first, second, together) in [
            (Shared, Shared, true),
            (Shared, Exclusive, false),
            (Exclusive, Shared, false),
            (Exclusive, Exclusive, false),
        ] {
            let (here, wanted) = (Manifest { lock: first, ..manifest(1) }, Manifest { lock: second, ..manifest(2) });
            let answer = asked(&wanted, &here, &Standing::Running);
            let busy = matches!(answer, Err(BeginError::HostBusy { run: busy }) if busy == run(1));
            assert_eq!((answer.is_ok(), busy), (together, !together), "{first:?} {second:?}");
            for standing in [ended(), never_started()] {
                assert!(asked(&wanted, &here, &standing).is_ok(), "{first:?} {second:?} {standing:?}");
            }
            let elsewhere = Manifest { host: HostName::new("web-2").unwrap(), ..here };
            assert!(asked(&wanted, &elsewhere, &Standing::Running).is_ok(), "{first:?} {second:?}");
        }
    }
}
