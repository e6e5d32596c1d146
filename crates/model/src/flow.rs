//! The life of a workflow's run, as far as every job has one.
//!
//! What happens in it is recorded step by step elsewhere; here is only what follows for its job. A run has no lease and no
//! attempts: the jobs that it begins do. What it waits for stands in `due_at`: the next moment at which something happens
//! by itself.

use crate::event::EventKind;
use crate::job::{JobKind, JobState, JobStatus, Refused, Step};
use crate::time::Timestamp;

/// Something that has happened to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowFact {
    /// A moment has come: the one at which it begins, or one that it waits for.
    Due,
    /// It has gone on, and stands like this now.
    Turned {
        status: JobStatus,
        due_at: Option<Timestamp>,
        /// It waits for a person or an event for which it did not wait before.
        waits_anew: bool,
    },
    CancelRequested,
    /// Somebody wants it to go on where it failed.
    Retried,
}

impl JobState {
    /// A run as it is accepted.
    pub fn accepted_flow(run_at: Option<Timestamp>, now: Timestamp) -> (Self, EventKind) {
        let (status, due_at, event) = match run_at {
            Some(at) if at > now => (JobStatus::Pending, Some(at), EventKind::JobScheduled),
            _ => (JobStatus::Running, None, EventKind::FlowOpened),
        };
        (Self { kind: JobKind::Workflow, status, attempts: 0, failures: 0, losses: 0, fence: 0, due_at }, event)
    }

    /// What `fact` leads to at `now`. `Unchanged` when there is nothing to tell.
    pub fn on_flow(&self, fact: FlowFact, now: Timestamp) -> Result<Step, Refused> {
        use {FlowFact as F, JobStatus as S};
        let to =
            |status, due_at, event| Ok(Step { next: Self { status, due_at, ..self.clone() }, event, retry_at: None });
        match (self.status, fact) {
            _ if self.kind != JobKind::Workflow => Err(Refused::NotFrom(self.status)),

            (_, F::Due) if self.due_at.is_none_or(|due| due > now) => Err(Refused::NotFrom(self.status)),
            (S::Pending, F::Due) => to(S::Running, None, EventKind::JobDue),
            (S::Running | S::Paused, F::Due) => to(self.status, None, EventKind::FlowWoken),

            (S::Running | S::Paused | S::Canceling, F::Turned { status, due_at, waits_anew }) => match status {
                S::Succeeded => to(status, None, EventKind::JobSucceeded),
                S::Failed => to(status, None, EventKind::JobFailed),
                S::Canceled => to(status, None, EventKind::JobCanceled),
                S::Error => to(status, None, EventKind::JobErrored),
                // Who wants it to stop has not been heard yet, but will be.
                _ if self.status == S::Canceling => Err(Refused::Unchanged(self.status)),
                // From one wait to the next nothing changes but what it waits for, and that is worth an event.
                S::Paused if waits_anew => to(status, due_at, EventKind::FlowPaused),
                _ if self.status == status && self.due_at == due_at => Err(Refused::Unchanged(status)),
                S::Paused => to(status, due_at, EventKind::FlowPaused),
                S::Running => to(status, due_at, EventKind::FlowResumed),
                other => Err(Refused::NotFrom(other)),
            },

            // It has heard something after its end.
            (before, F::Turned { status, .. }) if before.is_terminal() && before == status => {
                Err(Refused::Unchanged(status))
            }

            (S::Canceled | S::Canceling, F::CancelRequested) => Err(Refused::Unchanged(self.status)),
            (S::Pending, F::CancelRequested) => to(S::Canceled, None, EventKind::JobCanceled),
            (S::Running | S::Paused, F::CancelRequested) => to(S::Canceling, None, EventKind::JobCancelRequested),

            (S::Failed | S::Canceled | S::Error, F::Retried) => to(S::Running, None, EventKind::JobRetried),

            (status, F::CancelRequested | F::Retried) if status.is_terminal() => Err(Refused::Finished(status)),
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
        let turned = |status, due_at| FlowFact::Turned { status, due_at, waits_anew: false };
        let facts = [
            FlowFact::Due,
            turned(JobStatus::Running, None),
            turned(JobStatus::Paused, Some(at(9_000))),
            turned(JobStatus::Paused, Some(at(500))),
            FlowFact::Turned { status: JobStatus::Paused, due_at: Some(at(500)), waits_anew: true },
            turned(JobStatus::Succeeded, None),
            turned(JobStatus::Failed, None),
            turned(JobStatus::Canceled, None),
            turned(JobStatus::Error, None),
            FlowFact::CancelRequested,
            FlowFact::Retried,
        ];
        let mut table = String::new();
        for status in JobStatus::ALL {
            let kind = JobKind::Workflow;
            let due_at = matches!(status, JobStatus::Pending | JobStatus::Paused).then_some(at(500));
            let state = JobState { kind, status, attempts: 0, failures: 0, losses: 0, fence: 0, due_at };
            for fact in facts {
                let answer = match state.on_flow(fact, at(1_000)) {
                    Ok(step) => format!("{} ({}), due {:?}", step.next.status, step.event, step.next.due_at),
                    Err(refused) => format!("refused: {refused}"),
                };
                table.push_str(&format!("{status} + {fact:?}: {answer}\n"));
            }
        }
        insta::assert_snapshot!(table);
    }
}
