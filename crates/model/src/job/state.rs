//! The life of a job, and the only place where a job changes state.
//!
//! Enters: a [`Fact`], something that has already happened, with the job's policy, the time and a chance.
//! Leaves: a [`Step`]: the next state and the one event that tells of it. Where the job then waits is not an effect
//! but a consequence: [`JobState::place`] says it, and the ledger keeps exactly that row. So state and queue cannot
//! drift apart.
//! Never here: storage, clocks, logging, async.
//!
//! *Owner*: the run whose fence equals the job's fence while the job is running or canceling.
//! *Late*: a report from a run that is no longer the owner. It is evidence about its own attempt; it changes the job
//! only while no newer attempt owns it.

use crate::error::ErrorClass;
use crate::event::EventKind;
use crate::fleet::HostLock;
use crate::job::{JobKind, JobPolicy, JobStatus, OnLost};
use crate::planted::{self, Mistake};
use crate::run::Outcome;
use crate::time::Timestamp;

/// How long a job rests, at least, whose executor was busy.
const BUSY_PAUSE_MS: i64 = 1_000;

/// Everything about a job that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobState {
    pub kind: JobKind,
    pub status: JobStatus,
    /// Attempts begun, without hand-outs that were never accepted and those that a busy executor refused. Numbers are dense:
    /// attempt 1, 2, 3; an executor recognises an attempt by its number.
    pub attempts: u32,
    /// Attempts that failed since the job was accepted or last retried by a person.
    pub failures: u32,
    /// Leases lost since then.
    pub losses: u32,
    /// Grows with every hand-out. An older fence has no authority.
    pub fence: u32,
    /// While pending: when it is due. A unit that is pending without it waits for its host. A command that waits for
    /// approval or runs has its time limit here.
    pub due_at: Option<Timestamp>,
}

/// Something that has happened to a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// Its moment has come.
    Due,
    /// It was handed to a worker.
    Claimed,
    /// The run with this fence ended. If it failed, `retry_after_ms` is how long whoever refused wants to be left alone.
    Reported { fence: u32, outcome: Outcome, retry_after_ms: Option<u64> },
    /// The run with this fence has been silent for too long.
    LeaseExpired { fence: u32 },
    /// The run with this fence was handed out, and nobody confirmed it in time.
    Returned { fence: u32 },
    /// The run with this fence took longer than the policy allows and did not stop when told.
    DeadlinePassed { fence: u32 },
    /// The whole job did not end before its deadline.
    Expired,
    /// Somebody wants it stopped.
    CancelRequested,
    /// Somebody wants it tried again, with a fresh budget.
    Retried,
    /// Its host is free for it.
    HostGranted,
    /// It may not run on its host, as was found when it was about to.
    Blocked,
    /// What was approved for its host is not what would run, as was found when it was about to.
    Superseded,
}

/// Where a job waits. The ledger keeps one row there, and nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the timer table, until this moment.
    Timer(Timestamp),
    /// In its channel of the queue.
    Queue,
    /// With the worker that holds the lease.
    Lease,
    /// In the line before its host.
    Host,
    /// Nowhere: it has ended, or waits for a person.
    Nowhere,
}

/// What a fact led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub next: JobState,
    /// The event that tells of it.
    pub event: EventKind,
    /// When the next attempt is due, if one was decided on.
    pub retry_at: Option<Timestamp>,
}

/// Why a fact changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("a newer attempt owns the job")]
    StaleLease,
    #[error("the job is already {0}")]
    Finished(JobStatus),
    #[error("nothing to do: the job is already {0}")]
    Unchanged(JobStatus),
    #[error("this cannot happen to a job that is {0}")]
    NotFrom(JobStatus),
}

impl JobState {
    /// A job as it is accepted: queued, or pending until `run_at`.
    pub fn accepted(run_at: Option<Timestamp>, now: Timestamp) -> (Self, EventKind) {
        let new = |status, due_at| Self {
            kind: JobKind::Task,
            status,
            attempts: 0,
            failures: 0,
            losses: 0,
            fence: 0,
            due_at,
        };
        match run_at {
            Some(at) if at > now => (new(JobStatus::Pending, Some(at)), EventKind::JobScheduled),
            _ => (new(JobStatus::Queued, None), EventKind::JobEnqueued),
        }
    }

    /// One host of a command, planned: queued if the host is free for it, else in the line before the host.
    pub fn planned(lock: HostLock, granted: bool) -> (Self, EventKind) {
        let (status, event) = if granted {
            (JobStatus::Queued, EventKind::JobEnqueued)
        } else {
            (JobStatus::Pending, EventKind::HostAwaited)
        };
        let kind = JobKind::Unit(lock);
        (Self { kind, status, attempts: 0, failures: 0, losses: 0, fence: 0, due_at: None }, event)
    }

    pub fn place(&self) -> Place {
        if self.kind == JobKind::Workflow {
            return match (self.status, self.due_at) {
                (JobStatus::Pending | JobStatus::Running | JobStatus::Paused, Some(due)) => Place::Timer(due),
                _ => Place::Nowhere,
            };
        }
        if self.kind == JobKind::Command {
            return match (self.status, self.due_at) {
                (JobStatus::AwaitingApproval | JobStatus::Pending | JobStatus::Running, Some(due)) => Place::Timer(due),
                _ => Place::Nowhere,
            };
        }
        match self.status {
            JobStatus::Pending if self.kind.is_unit() && self.due_at.is_none() => Place::Host,
            JobStatus::Pending => Place::Timer(self.due_at.unwrap_or_default()),
            JobStatus::Queued => Place::Queue,
            JobStatus::Running | JobStatus::Canceling => Place::Lease,
            JobStatus::AwaitingApproval
            | JobStatus::Paused
            | JobStatus::Succeeded
            | JobStatus::Failed
            | JobStatus::Canceled
            | JobStatus::Dead
            | JobStatus::Blocked
            | JobStatus::TimedOut
            | JobStatus::Unreachable
            | JobStatus::Error => Place::Nowhere,
        }
    }

    /// Whether a run with this fence may act for the job.
    pub fn is_owned_by(&self, fence: u32) -> bool {
        matches!(self.status, JobStatus::Running | JobStatus::Canceling)
            && (fence == self.fence || planted::on(Mistake::NoFenceOnFinish))
    }

    /// What `fact` leads to at `now`. `chance` in `0.0..1.0` decides the jitter of a retry.
    pub fn on(&self, fact: &Fact, policy: &JobPolicy, now: Timestamp, chance: f64) -> Result<Step, Refused> {
        use JobStatus as S;
        let waits_for_host = self.place() == Place::Host;
        match (self.status, fact) {
            // It lives by rules of its own: see [`crate::fleet::CommandFact`].
            _ if matches!(self.kind, JobKind::Command | JobKind::Workflow) => Err(Refused::NotFrom(self.status)),

            (S::Pending, Fact::HostGranted) if waits_for_host => Ok(self.step(S::Queued, EventKind::HostGranted)),
            (S::Queued, Fact::Blocked) if self.kind.is_unit() => Ok(self.step(S::Blocked, EventKind::UnitBlocked)),
            (S::Queued, Fact::Superseded) if self.kind.is_unit() => Ok(self.step(S::Failed, EventKind::UnitSuperseded)),
            (S::Pending, Fact::Due) if !waits_for_host && self.due_at.is_none_or(|due| due <= now) => {
                Ok(self.step(self.ready(), EventKind::JobDue))
            }
            (S::Queued, Fact::Claimed) => {
                let mut step = self.step(S::Running, EventKind::JobStarted);
                step.next.attempts += 1;
                step.next.fence += 1;
                Ok(step)
            }

            (S::Running | S::Canceling, Fact::Reported { fence, outcome, retry_after_ms })
                if self.is_owned_by(*fence) =>
            {
                Ok(self.reported(outcome, *retry_after_ms, policy, now, chance))
            }
            (_, Fact::Reported { fence, outcome, .. }) if *fence == self.fence => self.late(outcome),
            (_, Fact::Reported { .. }) => Err(Refused::StaleLease),

            (S::Running, Fact::LeaseExpired { fence }) if *fence == self.fence => Ok(self.lost(policy, now)),
            // Nobody is left to confirm; a person wanted it to end, and it does not come back.
            (
                S::Canceling,
                Fact::LeaseExpired { fence } | Fact::Returned { fence } | Fact::DeadlinePassed { fence },
            ) if *fence == self.fence => Ok(self.step(S::Canceled, EventKind::JobCanceled)),
            (S::Running, Fact::Returned { fence }) if *fence == self.fence => {
                let mut step = self.step(S::Queued, EventKind::RunReturned);
                step.next.attempts = step.next.attempts.saturating_sub(1);
                Ok(step)
            }
            (S::Running, Fact::DeadlinePassed { fence }) if *fence == self.fence => {
                Ok(self.failed(ErrorClass::Timeout, None, policy, now, chance))
            }
            (_, Fact::LeaseExpired { .. } | Fact::Returned { .. } | Fact::DeadlinePassed { .. }) => {
                Err(Refused::StaleLease)
            }

            (S::Pending | S::Queued | S::Running, Fact::Expired) if self.kind == JobKind::Task => {
                Ok(self.step(S::Failed, EventKind::JobDeadlinePassed))
            }
            (S::Canceling, Fact::Expired) if self.kind == JobKind::Task => {
                Ok(self.step(S::Canceled, EventKind::JobCanceled))
            }

            (S::Canceled | S::Canceling, Fact::CancelRequested) => Err(Refused::Unchanged(self.status)),
            (S::Running, Fact::CancelRequested) => Ok(self.step(S::Canceling, EventKind::JobCancelRequested)),
            (S::AwaitingApproval | S::Pending | S::Queued | S::Paused, Fact::CancelRequested) => {
                Ok(self.step(S::Canceled, EventKind::JobCanceled))
            }

            (status, Fact::Retried) if status.is_terminal() && status != S::Succeeded => {
                let mut step = self.step(self.ready(), EventKind::JobRetried);
                step.next.failures = 0;
                step.next.losses = 0;
                Ok(step)
            }

            (status, Fact::CancelRequested | Fact::Retried | Fact::Expired) if status.is_terminal() => {
                Err(Refused::Finished(status))
            }
            (status, _) => Err(Refused::NotFrom(status)),
        }
    }

    /// Where it goes when nothing but a worker is wanting: a unit first asks for its host.
    const fn ready(&self) -> JobStatus {
        if self.kind.is_unit() { JobStatus::Pending } else { JobStatus::Queued }
    }

    fn step(&self, status: JobStatus, event: EventKind) -> Step {
        Step { next: Self { status, due_at: None, ..self.clone() }, event, retry_at: None }
    }

    /// The owner's word on how its attempt ended.
    fn reported(
        &self,
        outcome: &Outcome,
        retry_after_ms: Option<u64>,
        policy: &JobPolicy,
        now: Timestamp,
        chance: f64,
    ) -> Step {
        match outcome {
            Outcome::Succeeded => self.step(JobStatus::Succeeded, EventKind::JobSucceeded),
            Outcome::Canceled => self.step(JobStatus::Canceled, EventKind::JobCanceled),
            // Many handlers answer a cancel by failing. A person asked for the end, so no attempt follows.
            Outcome::Failed(_) if self.status == JobStatus::Canceling => {
                self.step(JobStatus::Canceled, EventKind::JobCanceled)
            }
            Outcome::Failed(class) => self.failed(*class, retry_after_ms, policy, now, chance),
        }
    }

    fn failed(
        &self,
        class: ErrorClass,
        retry_after_ms: Option<u64>,
        policy: &JobPolicy,
        now: Timestamp,
        chance: f64,
    ) -> Step {
        if class == ErrorClass::Busy {
            return self.refused(now, chance);
        }
        let failures = self.failures + 1;
        let unstarted = policy.retry_not_started.filter(|_| self.never_started(class)).map(|retry| retry.as_policy());
        let retry = unstarted.as_ref().unwrap_or(&policy.retry);
        let mut step = if retry.allows_after_failure(failures, class) {
            // The policy's own delay comes on top, so that all who were sent away together do not come back together.
            let delay = retry.delay_ms(failures - 1, chance).saturating_add(retry_after_ms.unwrap_or(0));
            let at = now.plus_millis(i64::try_from(delay).unwrap_or(i64::MAX));
            let status = if delay == 0 { self.ready() } else { JobStatus::Pending };
            let mut step = self.step(status, EventKind::RunFailed);
            step.next.due_at = (delay > 0).then_some(at);
            step.retry_at = Some(at);
            step
        } else {
            self.hopeless(Some(class), policy)
        };
        step.next.failures = failures;
        step
    }

    /// Whether an attempt that failed in this way did nothing. What executes commands on hosts calls only that transient.
    fn never_started(&self, class: ErrorClass) -> bool {
        class == ErrorClass::Unreachable || (self.kind.is_unit() && class == ErrorClass::Transient)
    }

    /// Nothing was begun, so nothing failed. It is offered again after a pause, for as long as somebody wants it.
    fn refused(&self, now: Timestamp, chance: f64) -> Step {
        let at = now.plus_millis(BUSY_PAUSE_MS + (chance * BUSY_PAUSE_MS as f64) as i64);
        let mut step = self.step(JobStatus::Pending, EventKind::RunRefused);
        step.next.attempts = step.next.attempts.saturating_sub(1);
        step.next.due_at = Some(at);
        step.retry_at = Some(at);
        step
    }

    fn lost(&self, policy: &JobPolicy, now: Timestamp) -> Step {
        let losses = self.losses + 1;
        let mut step = if policy.on_lost == OnLost::Error {
            self.step(JobStatus::Error, EventKind::JobErrored)
        } else if policy.retry.allows_after_loss(losses) {
            // The lease was already the wait. A unit asks for its host anew: it may be kept for the run that is missing.
            let mut step = self.step(self.ready(), EventKind::RunLost);
            step.retry_at = Some(now);
            step
        } else {
            self.hopeless(None, policy)
        };
        step.next.losses = losses;
        step
    }

    /// No attempt follows. What failed on a host says in which way, so that people can act on each.
    fn hopeless(&self, class: Option<ErrorClass>, policy: &JobPolicy) -> Step {
        match class {
            _ if policy.dead_letter => self.step(JobStatus::Dead, EventKind::JobDeadLettered),
            Some(ErrorClass::Timeout) if self.kind.is_unit() => self.step(JobStatus::TimedOut, EventKind::UnitTimedOut),
            Some(class) if self.kind.is_unit() && self.never_started(class) => {
                self.step(JobStatus::Unreachable, EventKind::UnitUnreachable)
            }
            _ => self.step(JobStatus::Failed, EventKind::JobFailed),
        }
    }

    /// Evidence about the latest attempt, after we had given it up and before a newer one began.
    fn late(&self, outcome: &Outcome) -> Result<Step, Refused> {
        match (self.status, outcome) {
            (JobStatus::Succeeded, _) => Err(Refused::Finished(self.status)),
            (_, Outcome::Succeeded) => Ok(self.step(JobStatus::Succeeded, EventKind::JobCorrected)),
            (JobStatus::Pending | JobStatus::Queued, Outcome::Canceled) => {
                Ok(self.step(JobStatus::Canceled, EventKind::JobCorrected))
            }
            // It failed rather than vanished. The attempt says so; the decision to try again, or not to, stands.
            _ => Err(Refused::Unchanged(self.status)),
        }
    }
}
