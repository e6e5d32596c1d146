//! The life of a command on many hosts, as far as it is not the life of its parts.
//!
//! Enters: a [`CommandFact`]. Leaves: the next state and its one event. A command has no lease and no attempts: its units
//! do. What it waits for stands in `due_at`: the end of the time to approve it, the moment it begins, its time limit.

use crate::event::EventKind;
use crate::job::{JobKind, JobState, JobStatus, Refused, Step};
use crate::time::Timestamp;

/// Something that has happened to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandFact {
    /// What it waited for has come: its moment, or the end of a time. Its own time limit begins with the former.
    Due {
        deadline_at: Option<Timestamp>,
    },
    /// Enough people said yes. It begins now, or at its moment.
    Approved {
        begins_at: Timestamp,
    },
    /// Somebody said no.
    Rejected,
    /// What was to be approved is not what would run any more.
    Superseded,
    CancelRequested,
    /// Somebody wants those hosts tried again that did not succeed.
    Retried {
        deadline_at: Option<Timestamp>,
    },
    /// The same, and somebody must say yes first, until this moment.
    RetryAwaitsApproval {
        until: Timestamp,
    },
    /// Every host has ended, or will never begin.
    Ended(End),
    /// A host's late word has changed how it ended.
    Corrected,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Succeeded,
    Failed,
    Canceled,
}

impl JobState {
    /// A command as it is accepted.
    pub fn accepted_command(
        approve_until: Option<Timestamp>,
        run_at: Option<Timestamp>,
        deadline_at: Option<Timestamp>,
        now: Timestamp,
    ) -> (Self, EventKind) {
        let (status, due_at, event) = match (approve_until, run_at) {
            (Some(until), _) => (JobStatus::AwaitingApproval, Some(until), EventKind::JobAwaitsApproval),
            (None, Some(at)) if at > now => (JobStatus::Pending, Some(at), EventKind::JobScheduled),
            _ => (JobStatus::Running, deadline_at, EventKind::JobOpened),
        };
        (Self { kind: JobKind::Command, status, attempts: 0, failures: 0, losses: 0, fence: 0, due_at }, event)
    }

    /// What `fact` leads to at `now`.
    pub fn on_command(&self, fact: CommandFact, now: Timestamp) -> Result<Step, Refused> {
        use {CommandFact as F, JobStatus as S};
        let to =
            |status, due_at, event| Ok(Step { next: Self { status, due_at, ..self.clone() }, event, retry_at: None });
        let is_due = self.due_at.is_some_and(|due| due <= now);
        match (self.status, fact) {
            _ if self.kind != JobKind::Command => Err(Refused::NotFrom(self.status)),

            (S::AwaitingApproval, F::Approved { begins_at }) => to(S::Pending, Some(begins_at), EventKind::JobApproved),
            (S::AwaitingApproval, F::Rejected) => to(S::Canceled, None, EventKind::JobRejected),
            (S::AwaitingApproval, F::Superseded) => to(S::Canceled, None, EventKind::JobSuperseded),
            (S::AwaitingApproval, F::Due { .. }) if is_due => to(S::Canceled, None, EventKind::JobApprovalExpired),

            (S::Pending, F::Due { deadline_at }) if is_due => to(S::Running, deadline_at, EventKind::JobOpened),
            (S::Running, F::Due { .. }) if is_due => to(S::Canceling, None, EventKind::JobDeadlinePassed),

            (S::Running, F::Ended(End::Canceled)) => Err(Refused::NotFrom(self.status)),
            (S::Running | S::Canceling, F::Ended(End::Succeeded)) => to(S::Succeeded, None, EventKind::JobSucceeded),
            (S::Running | S::Canceling, F::Ended(End::Failed)) => to(S::Failed, None, EventKind::JobFailed),
            (S::Canceling, F::Ended(End::Canceled)) => to(S::Canceled, None, EventKind::JobCanceled),
            (S::Failed | S::Canceled, F::Corrected) => to(S::Succeeded, None, EventKind::JobCorrected),

            (S::Canceled | S::Canceling, F::CancelRequested) => Err(Refused::Unchanged(self.status)),
            (S::Running, F::CancelRequested) => to(S::Canceling, None, EventKind::JobCancelRequested),
            (S::AwaitingApproval | S::Pending, F::CancelRequested) => to(S::Canceled, None, EventKind::JobCanceled),

            (S::Failed | S::Canceled, F::Retried { deadline_at }) => to(S::Running, deadline_at, EventKind::JobRetried),

            (S::Failed | S::Canceled, F::RetryAwaitsApproval { until }) => {
                to(S::AwaitingApproval, Some(until), EventKind::JobAwaitsApproval)
            }

            (status, F::CancelRequested | F::Retried { .. } | F::RetryAwaitsApproval { .. })
                if status.is_terminal() =>
            {
                Err(Refused::Finished(status))
            }
            (status, _) => Err(Refused::NotFrom(status)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_table() {
        let at = Timestamp::from_millis;
        let facts = [
            CommandFact::Due { deadline_at: Some(at(9_000)) },
            CommandFact::Approved { begins_at: at(2_000) },
            CommandFact::Rejected,
            CommandFact::Superseded,
            CommandFact::CancelRequested,
            CommandFact::Retried { deadline_at: None },
            CommandFact::RetryAwaitsApproval { until: at(9_000) },
            CommandFact::Ended(End::Succeeded),
            CommandFact::Ended(End::Failed),
            CommandFact::Ended(End::Canceled),
            CommandFact::Corrected,
        ];
        let mut table = String::new();
        for status in JobStatus::ALL {
            let waits = matches!(status, JobStatus::AwaitingApproval | JobStatus::Pending | JobStatus::Running);
            let due_at = waits.then_some(at(1));
            let kind = JobKind::Command;
            let state = JobState { kind, status, attempts: 0, failures: 0, losses: 0, fence: 0, due_at };
            for fact in facts {
                let answer = match state.on_command(fact, at(1_000)) {
                    Ok(step) => format!("{} [{}] {:?}", step.next.status, step.event, step.next.place()),
                    Err(refused) => format!("refused: {refused}"),
                };
                table.push_str(&format!("{status} + {fact:?} -> {answer}\n"));
            }
        }
        insta::assert_snapshot!(table);
    }
}
