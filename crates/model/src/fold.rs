//! The state of a job as the sum of its events.
//!
//! What the ledger stores about a job must equal what this makes of its events; `bowline verify` compares them, and
//! `rebuild` writes this over that. The fold is written from the meaning of the events, not from the rules that
//! produced them, so that the two can catch each other's mistakes.

use std::collections::BTreeMap;

use crate::error::ErrorClass;
use crate::event::{EventData, EventKind};
use crate::fleet::HostLock;
use crate::id::RunId;
use crate::job::{JobKind, JobState, JobStatus};
use crate::run::RunStatus;
use crate::time::Timestamp;

/// An event as far as the fold cares.
#[derive(Debug, Clone)]
pub struct Told {
    pub at: Timestamp,
    pub kind: EventKind,
    pub fence: Option<u32>,
    pub data: EventData,
}

/// A run as the events tell it.
#[derive(Debug, Clone, PartialEq)]
pub struct FoldedRun {
    pub id: Option<RunId>,
    pub attempt: u32,
    pub status: RunStatus,
}

/// A job as the events tell it.
#[derive(Debug, Clone, PartialEq)]
pub struct FoldedJob {
    pub state: JobState,
    pub runs: BTreeMap<u32, FoldedRun>,
}

/// Why events make no job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokenHistory {
    #[error("the history is empty")]
    Empty,
    #[error("the history begins with {0} instead of the job being accepted")]
    NoBeginning(EventKind),
    #[error("{kind} speaks of hand-out {fence}, which never happened")]
    UnknownRun { kind: EventKind, fence: u32 },
}

/// Adds up the events of one job, in ledger order.
pub fn fold<'a>(events: impl IntoIterator<Item = &'a Told>) -> Result<FoldedJob, BrokenHistory> {
    let mut events = events.into_iter();
    let first = events.next().ok_or(BrokenHistory::Empty)?;
    let status = match first.kind {
        EventKind::JobEnqueued => JobStatus::Queued,
        EventKind::JobScheduled | EventKind::HostAwaited => JobStatus::Pending,
        EventKind::JobOpened | EventKind::FlowOpened => JobStatus::Running,
        EventKind::JobAwaitsApproval => JobStatus::AwaitingApproval,
        other => return Err(BrokenHistory::NoBeginning(other)),
    };
    let kind = match (&first.data.host, first.data.hosts) {
        _ if first.data.steps.is_some() => JobKind::Workflow,
        (Some(_), _) => JobKind::Unit(if first.data.shared { HostLock::Shared } else { HostLock::Exclusive }),
        (None, Some(_)) => JobKind::Command,
        (None, None) => JobKind::Task,
    };
    let state = JobState { kind, status, attempts: 0, failures: 0, losses: 0, fence: 0, due_at: first.data.due_at };
    let mut job = FoldedJob { state, runs: BTreeMap::new() };
    for event in events {
        match kind {
            JobKind::Command => job.add_to_command(event),
            JobKind::Workflow => job.add_to_flow(event),
            JobKind::Task | JobKind::Unit(_) => job.add(event)?,
        }
    }
    Ok(job)
}

impl FoldedJob {
    fn add(&mut self, event: &Told) -> Result<(), BrokenHistory> {
        use {EventKind as K, JobStatus as S};
        let data = &event.data;
        match event.kind {
            K::JobDue => self.waits(self.ready(), None),
            K::HostGranted => self.waits(S::Queued, None),
            K::UnitBlocked => self.waits(S::Blocked, None),
            K::UnitSuperseded => self.waits(S::Failed, None),
            K::JobStarted => {
                self.state.attempts += 1;
                self.state.fence = event.fence.unwrap_or(self.state.fence + 1);
                self.waits(S::Running, None);
                let status = if data.accepted { RunStatus::Running } else { RunStatus::Starting };
                let attempt = data.attempt.unwrap_or(self.state.attempts);
                self.runs.insert(self.state.fence, FoldedRun { id: data.run_id, attempt, status });
            }
            K::RunAccepted => self.end_run(event, RunStatus::Running)?,
            K::RunFailed => {
                self.state.failures += 1;
                self.waits(if data.due_at.is_some() { S::Pending } else { self.ready() }, data.due_at);
                self.end_run(event, data.outcome.unwrap_or(RunStatus::Failed))?;
            }
            K::RunRefused => {
                self.state.attempts = self.state.attempts.saturating_sub(1);
                self.waits(S::Pending, data.due_at);
                self.end_run(event, data.outcome.unwrap_or(RunStatus::Failed))?;
            }
            K::RunLost => {
                self.state.losses += 1;
                self.waits(self.ready(), None);
                self.end_run(event, RunStatus::Lost)?;
            }
            K::RunReturned => {
                self.state.attempts = self.state.attempts.saturating_sub(1);
                self.waits(S::Queued, None);
                self.end_run(event, RunStatus::Returned)?;
            }
            K::JobSucceeded => {
                self.waits(S::Succeeded, None);
                self.end_run(event, RunStatus::Succeeded)?;
            }
            K::JobFailed | K::JobDeadLettered | K::JobErrored | K::UnitTimedOut | K::UnitUnreachable => {
                // What became of the run, not what somebody called the error.
                let lost = data.outcome.map_or(data.class == Some(ErrorClass::Lost), |end| end == RunStatus::Lost);
                if lost {
                    self.state.losses += 1;
                } else {
                    self.state.failures += 1;
                }
                self.waits(
                    match event.kind {
                        K::JobFailed => S::Failed,
                        K::JobErrored => S::Error,
                        K::UnitTimedOut => S::TimedOut,
                        K::UnitUnreachable => S::Unreachable,
                        _ => S::Dead,
                    },
                    None,
                );
                let otherwise = if lost { RunStatus::Lost } else { RunStatus::Failed };
                self.end_run(event, data.outcome.unwrap_or(otherwise))?;
            }
            K::JobCancelRequested => self.waits(S::Canceling, None),
            K::JobCanceled => {
                self.waits(S::Canceled, None);
                if event.fence.is_some() {
                    self.end_run(event, data.outcome.unwrap_or(RunStatus::Canceled))?;
                }
            }
            K::JobDeadlinePassed => {
                self.waits(S::Failed, None);
                if event.fence.is_some() {
                    self.end_run(event, data.outcome.unwrap_or(RunStatus::TimedOut))?;
                }
            }
            K::RunCorrected => self.end_run(event, data.outcome.unwrap_or(RunStatus::Lost))?,
            K::JobCorrected => {
                let outcome = data.outcome.unwrap_or(RunStatus::Succeeded);
                self.waits(if outcome == RunStatus::Canceled { S::Canceled } else { S::Succeeded }, None);
                self.end_run(event, outcome)?;
            }
            K::JobRetried => {
                self.state.failures = 0;
                self.state.losses = 0;
                self.waits(self.ready(), None);
            }
            // Told again at the beginning by a confused ledger, or not about the state of the job.
            K::JobEnqueued
            | K::JobScheduled
            | K::RunProgressed
            | K::HostAwaited
            | K::JobOpened
            | K::JobAwaitsApproval
            | K::JobApproved
            | K::JobApprovalNoted
            | K::JobRejected
            | K::JobSuperseded
            | K::ApprovalSuperseded
            | K::JobApprovalExpired
            | K::JobStopped
            | K::FlowOpened
            | K::FlowPaused
            | K::FlowAwaits
            | K::FlowResumed
            | K::FlowWoken
            | K::FlowSteered
            | K::FlowLogged
            | K::HostsPlanned
            | K::HostBlocked
            | K::HostUnblocked
            | K::HostReleased
            | K::JobReplayed
            | K::DeadLetterPurged
            | K::ServerStarted
            | K::UnknownRunsFound
            | K::ClockHeld
            | K::ClockAccepted
            | K::WorkerRegistered
            | K::AgentEnrolled
            | K::AgentRenewed
            | K::AgentSealingKeySet
            | K::AgentSealingKeyChanged
            | K::AgentRemoved
            | K::InventoryChanged
            | K::ResourceStored
            | K::ResourceActivated
            | K::ResourceDeleted
            | K::TokenCreated
            | K::ScheduleMissed
            | K::SchedulePassedOver
            | K::ScheduleRefused
            | K::TriggerRefused
            | K::EvaluationSetAside
            | K::EvaluationResumed
            | K::TokenRevoked => {}
        }
        Ok(())
    }

    /// A command's own events. What happens on its hosts is told by its units.
    fn add_to_command(&mut self, event: &Told) {
        use {EventKind as K, JobStatus as S};
        match event.kind {
            K::JobAwaitsApproval => self.waits(S::AwaitingApproval, event.data.due_at),
            K::JobApproved => self.waits(S::Pending, event.data.due_at),
            K::JobOpened | K::JobRetried => self.waits(S::Running, event.data.due_at),
            K::JobCancelRequested | K::JobDeadlinePassed => self.waits(S::Canceling, None),
            K::JobSucceeded | K::JobCorrected => self.waits(S::Succeeded, None),
            K::JobFailed => self.waits(S::Failed, None),
            K::JobCanceled | K::JobRejected | K::JobSuperseded | K::JobApprovalExpired => {
                self.waits(S::Canceled, None);
            }
            _ => {}
        }
    }

    /// The events of a workflow's run, as far as they are about its job. Its steps are recorded elsewhere.
    fn add_to_flow(&mut self, event: &Told) {
        use {EventKind as K, JobStatus as S};
        match event.kind {
            K::JobDue | K::JobRetried => self.waits(S::Running, None),
            K::FlowPaused => self.waits(S::Paused, event.data.due_at),
            K::FlowResumed => self.waits(S::Running, event.data.due_at),
            K::FlowWoken => self.waits(self.state.status, None),
            K::JobCancelRequested => self.waits(S::Canceling, None),
            K::JobSucceeded => self.waits(S::Succeeded, None),
            K::JobFailed => self.waits(S::Failed, None),
            K::JobErrored => self.waits(S::Error, None),
            K::JobCanceled => self.waits(S::Canceled, None),
            _ => {}
        }
    }

    /// Where a job goes that waits for nothing but a worker: one on a host asks for the host first.
    fn ready(&self) -> JobStatus {
        if self.state.kind.is_unit() { JobStatus::Pending } else { JobStatus::Queued }
    }

    fn waits(&mut self, status: JobStatus, due_at: Option<Timestamp>) {
        self.state.status = status;
        self.state.due_at = due_at;
    }

    fn end_run(&mut self, event: &Told, status: RunStatus) -> Result<(), BrokenHistory> {
        let fence = event.fence.unwrap_or(self.state.fence);
        match self.runs.get_mut(&fence) {
            Some(run) => {
                run.status = status;
                Ok(())
            }
            None => Err(BrokenHistory::UnknownRun { kind: event.kind, fence }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostName;
    use crate::event::EventKind as K;
    use crate::job::JobStatus as S;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn told(kind: EventKind, fence: Option<u32>, data: EventData) -> Told {
        Told { at: at(1), kind, fence, data }
    }

    fn nothing() -> EventData {
        EventData::default()
    }

    fn due() -> EventData {
        EventData { due_at: Some(at(9_000)), ..nothing() }
    }

    /// Where a job stands, and until when, after its first event and one more.
    fn after(first: &Told, kind: EventKind) -> (JobStatus, Option<Timestamp>) {
        let state = fold([first, &told(kind, None, due())]).expect("a history").state;
        (state.status, state.due_at)
    }

    #[test]
    fn a_history_begins_with_the_job_being_accepted() {
        let first = |kind, data| fold([&told(kind, None, data)]).map(|job| (job.state.kind, job.state.status));
        let host = |shared| EventData { host: Some(HostName::new("web1").expect("a name")), shared, ..nothing() };
        let hosts = EventData { hosts: Some(3), ..nothing() };
        let steps = EventData { steps: Some(0), ..nothing() };
        assert_eq!(first(K::JobEnqueued, nothing()), Ok((JobKind::Task, S::Queued)));
        assert_eq!(first(K::JobScheduled, due()), Ok((JobKind::Task, S::Pending)));
        assert_eq!(first(K::HostAwaited, host(false)), Ok((JobKind::Unit(HostLock::Exclusive), S::Pending)));
        assert_eq!(first(K::JobEnqueued, host(true)), Ok((JobKind::Unit(HostLock::Shared), S::Queued)));
        assert_eq!(first(K::JobAwaitsApproval, hosts.clone()), Ok((JobKind::Command, S::AwaitingApproval)));
        assert_eq!(first(K::JobOpened, hosts), Ok((JobKind::Command, S::Running)));
        assert_eq!(first(K::FlowOpened, steps), Ok((JobKind::Workflow, S::Running)));
        assert_eq!(first(K::JobStarted, nothing()), Err(BrokenHistory::NoBeginning(K::JobStarted)));
        assert_eq!(fold([]), Err(BrokenHistory::Empty));
    }

    #[test]
    fn a_command_stands_where_its_last_event_put_it() {
        let first = told(K::JobOpened, None, EventData { hosts: Some(3), due_at: Some(at(5)), ..nothing() });
        for (kind, status, waits) in [
            (K::JobAwaitsApproval, S::AwaitingApproval, true),
            (K::JobApproved, S::Pending, true),
            (K::JobOpened, S::Running, true),
            (K::JobRetried, S::Running, true),
            (K::JobCancelRequested, S::Canceling, false),
            (K::JobDeadlinePassed, S::Canceling, false),
            (K::JobSucceeded, S::Succeeded, false),
            (K::JobCorrected, S::Succeeded, false),
            (K::JobFailed, S::Failed, false),
            (K::JobCanceled, S::Canceled, false),
            (K::JobRejected, S::Canceled, false),
            (K::JobSuperseded, S::Canceled, false),
            (K::JobApprovalExpired, S::Canceled, false),
        ] {
            assert_eq!(after(&first, kind), (status, waits.then_some(at(9_000))), "{kind}");
        }
        assert_eq!(after(&first, K::HostsPlanned), (S::Running, Some(at(5))), "it goes on as before");
    }

    #[test]
    fn a_workflow_stands_where_its_last_event_put_it() {
        let first = told(K::FlowOpened, None, EventData { steps: Some(0), due_at: Some(at(5)), ..nothing() });
        for (kind, status, waits) in [
            (K::JobDue, S::Running, false),
            (K::JobRetried, S::Running, false),
            (K::FlowPaused, S::Paused, true),
            (K::FlowResumed, S::Running, true),
            (K::FlowWoken, S::Running, false),
            (K::JobCancelRequested, S::Canceling, false),
            (K::JobSucceeded, S::Succeeded, false),
            (K::JobFailed, S::Failed, false),
            (K::JobErrored, S::Error, false),
            (K::JobCanceled, S::Canceled, false),
        ] {
            assert_eq!(after(&first, kind), (status, waits.then_some(at(9_000))), "{kind}");
        }
        assert_eq!(after(&first, K::FlowLogged), (S::Running, Some(at(5))), "it goes on as before");
    }

    #[test]
    fn a_job_and_its_attempt_end_as_they_are_told_to_have_ended() {
        let start = [told(K::JobEnqueued, None, nothing()), told(K::JobStarted, Some(1), nothing())];
        for (kind, outcome, class, status, failures, losses, run) in [
            (K::JobSucceeded, None, None, S::Succeeded, 0, 0, RunStatus::Succeeded),
            (K::JobFailed, None, None, S::Failed, 1, 0, RunStatus::Failed),
            (K::JobErrored, None, Some(ErrorClass::Lost), S::Error, 0, 1, RunStatus::Lost),
            (K::JobDeadLettered, Some(RunStatus::Failed), Some(ErrorClass::Lost), S::Dead, 1, 0, RunStatus::Failed),
            (K::JobDeadLettered, Some(RunStatus::Lost), None, S::Dead, 0, 1, RunStatus::Lost),
            (K::UnitTimedOut, Some(RunStatus::TimedOut), None, S::TimedOut, 1, 0, RunStatus::TimedOut),
            (K::UnitUnreachable, None, Some(ErrorClass::Unreachable), S::Unreachable, 1, 0, RunStatus::Failed),
            (K::JobCanceled, None, None, S::Canceled, 0, 0, RunStatus::Canceled),
            (K::JobDeadlinePassed, None, None, S::Failed, 0, 0, RunStatus::TimedOut),
            (K::JobCorrected, None, None, S::Succeeded, 0, 0, RunStatus::Succeeded),
            (K::JobCorrected, Some(RunStatus::Canceled), None, S::Canceled, 0, 0, RunStatus::Canceled),
            (K::RunCorrected, Some(RunStatus::Succeeded), None, S::Running, 0, 0, RunStatus::Succeeded),
            (K::RunLost, None, None, S::Queued, 0, 1, RunStatus::Lost),
            (K::RunFailed, None, None, S::Queued, 1, 0, RunStatus::Failed),
        ] {
            let end = told(kind, Some(1), EventData { outcome, class, ..nothing() });
            let job = fold(start.iter().chain([&end])).expect("a history");
            let state = job.state;
            assert_eq!((state.status, state.failures, state.losses), (status, failures, losses), "{kind} {outcome:?}");
            assert_eq!(job.runs[&1].status, run, "{kind} {outcome:?}");
        }
    }

    #[test]
    fn a_hand_out_that_never_happened_breaks_a_history() {
        let history = [told(K::JobEnqueued, None, nothing()), told(K::RunAccepted, Some(7), nothing())];
        assert_eq!(fold(&history), Err(BrokenHistory::UnknownRun { kind: K::RunAccepted, fence: 7 }));
    }
}
